"""`penstock.balance`: an operator whose records go to tasks by their cost."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql.types import StructType

from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping
from penstock.policies.shedding import Shedder
from penstock.policies.validation import known
from penstock.spark import internals
from penstock.spark.arguments import (
    Key,
    name_of,
    names_of,
    refuse_reserved,
    refuse_unpicklable,
    schema_of,
)
from penstock.spark.executor.shipping import shipped
from penstock.spark.executor.spill_writer import executing_or_spilling
from penstock.spark.executor.work import Form, UserFunction, executing, try_example
from penstock.spark.routed import RoutedOperator
from penstock.spark.shed_arguments import ShedArguments, shed_arguments


def balance(
    func: Callable[..., Any],
    *,
    key: Key,
    schema: StructType | str,
    instances: int | None = None,
    grouping: str | Grouping = "posg",
    form: Form | None = None,
    name: str | None = None,
    journal: Path | str | None = None,
    example: dict[str, Any] | None = None,
    shed: Shedder | None = None,
    arrival: str | Column | None = None,
    protect: str | Column | None = None,
    spill: str | None = None,
) -> "BalanceOperator":
    """Return an operator for `DataFrame.transform` that calls `func` for every record.

    The grouping decides which task gets which record, by the cost of earlier records of the same
    key. The operator works on streaming and on batch DataFrames; the result is an ordinary
    DataFrame.

    Args:
        func: function that takes a record and returns a record, None, or an iterable of records.
            A record is a dict, or a Row if the parameter's annotation is `pyspark.sql.Row`. If
            the annotation is `pyarrow.RecordBatch`, the function takes and returns whole batches
            (or an iterable of them). The records of a batch share its cost equally, so batches
            teach less about keys: prefer single records where one takes a millisecond or more.
        key: column, columns or expressions that drive the cost. Any type; null is a key.
        schema: schema of the records that `func` returns.
        instances: number of tasks that share the work; one per slot of the cluster by default.
        grouping: registered name, or a grouping (its own `instances` then counts).
        form: "dict", "row" or "arrow", if the annotation of the function does not name it.
        name: name of the operator in stats, journal and checkpoint; unique in a query. The
            function's name by default.
        journal: file for observations and plans (JSON lines, rotated).
        example: record to try the function with now. A result that does not fit the schema is
            then found before the query starts.
        shed: shedder, such as
            `penstock.shedding.LoadAware(target=penstock.shedding.average("2 s"))`. Records that
            would make its target fail are not processed. The operator sets its `instances`.
        arrival: timestamp column since which records wait; needed to shed.
        protect: condition of records that must not be shed, such as "priority = 'high'".
        spill: folder in which shed records are kept as Parquet files, exactly once; see
            `penstock.replay`.

    Example:
        >>> def enrich(record):
        ...     return {"entity": record["entity"], "score": 0.5}
        >>> op = balance(enrich, key="entity", schema="entity string, score double", instances=8)
        >>> op.name, op.form
        ('enrich', 'dict')
    """
    return BalanceOperator(
        func,
        key,
        schema,
        instances=instances,
        grouping=grouping,
        form=form,
        name=name,
        journal=journal,
        example=example,
        shed=shed_arguments(shed, arrival=arrival, protect=protect, spill=spill),
    )


class BalanceOperator(RoutedOperator):
    """A balanced operator: made by `penstock.balance`, used by `DataFrame.transform`."""

    def __init__(
        self,
        func: Callable[..., Any],
        key: Key,
        schema: StructType | str,
        *,
        instances: int | None,
        grouping: str | Grouping,
        form: Form | None,
        name: str | None,
        journal: Path | str | None,
        example: dict[str, Any] | None,
        shed: ShedArguments | None,
    ) -> None:
        if not callable(func):
            raise PenstockError(f"func must be a function; got {func!r}")
        super().__init__(
            name_of(func, name),
            key,
            instances=instances,
            grouping=grouping,
            journal=journal,
            shed=shed,
        )
        self.func = func
        self.form = _form(func, form)
        self._schema = schema
        self._example = example
        refuse_unpicklable(f"func {self.name!r}", func)

    def __call__(self, frame: DataFrame) -> DataFrame:
        """Return the frame with `func` applied to every record."""
        spark = internals.supported_session(frame)
        refuse_reserved(frame)
        function = UserFunction(
            self.name,
            self.func,
            form=self.form,
            keys=names_of(self.keys),
            given=frame.schema,
            returned=schema_of(self._schema),
        )
        if self._example is not None:
            try_example(function, self._example)
        routed = self._route(spark, frame, self.keys)
        stage = executing(routed.spec, function, routed.plane.reports)
        if routed.spill is not None:
            stage = executing_or_spilling(routed.spec, routed.spill, stage)
        return routed.frame.mapInArrow(shipped(stage), function.returned)


def _form(func: Callable[..., Any], form: Form | None) -> Form:
    if form is not None:
        known("form", form, ("dict", "row", "arrow"))
        return form
    try:
        hints = get_type_hints(func)
        first = next(iter(inspect.signature(func).parameters))
    except (TypeError, ValueError, NameError, StopIteration):
        return "dict"
    annotation = hints.get(first)
    return "arrow" if annotation is pa.RecordBatch else "row" if annotation is Row else "dict"
