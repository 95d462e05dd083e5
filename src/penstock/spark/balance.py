"""`penstock.balance`: an operator whose records go to tasks by what they cost."""

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
from penstock.spark.execution import Form, Work, operator, try_example
from penstock.spark.operators import (
    Key,
    RoutedOperator,
    name_of,
    names_of,
    refuse_reserved,
    refuse_unpicklable,
    schema_of,
)
from penstock.spark.shedding import Shedding, checked_shedding
from penstock.spark.spill import with_spill
from penstock.spark.tasks import shipped


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
) -> "Operator":
    """Return an operator for `DataFrame.transform` that calls `func` for every record.

    Which task gets which record is decided by what records of the same key have cost. It works on
    streaming and on batch DataFrames; the result is an ordinary DataFrame.

    Args:
        func: takes a record and returns a record, None, or an iterable of records. A record is a
            dict; if the parameter's annotation is `pyspark.sql.Row`, a Row; if it is
            `pyarrow.RecordBatch`, the function takes and returns whole batches (or an iterable
            of them). The cost of a batch is then shared equally by its records, so that batches
            tell less about keys: prefer single records where one takes a millisecond or more.
        key: column (or columns, or expressions) that drives the cost. Any type; null is a key.
        schema: of what `func` returns.
        instances: tasks that share the work; by default as many as the cluster has slots.
        grouping: registered name, or a policy object (its own `instances` then counts).
        form: "dict", "row" or "arrow", if the annotations do not tell.
        name: of the operator in stats, journal and checkpoint; unique in a query. By default the
            function's name.
        journal: file for observations and plans (JSON lines, rotated).
        example: a record to try the function with now, so that a result that does not fit the
            schema is found before the query starts.
        shed: a shedder, as `penstock.LoadAware(target=penstock.average("2 s"))`: records that
            would make its target fail are not processed. Its `instances` are the operator's.
        arrival: timestamp column since when records wait; needed to shed.
        protect: condition of records that must not be shed, as "priority = 'high'".
        spill: folder in which shed records are kept as Parquet files, exactly once; see
            `penstock.replay`.

    Example:
        >>> def enrich(record):
        ...     return {"entity": record["entity"], "score": 0.5}
        >>> op = balance(enrich, key="entity", schema="entity string, score double", instances=8)
        >>> op.name, op.form
        ('enrich', 'dict')
    """
    shedding = checked_shedding(shed, arrival, protect, spill)
    return Operator(func, key, schema, instances, grouping, form, name, journal, example, shedding)


class Operator(RoutedOperator):
    """A balanced operator: made by `penstock.balance`, used by `DataFrame.transform`."""

    def __init__(
        self,
        func: Callable[..., Any],
        key: Key,
        schema: StructType | str,
        instances: int | None,
        grouping: str | Grouping,
        form: Form | None,
        name: str | None,
        journal: Path | str | None,
        example: dict[str, Any] | None,
        shedding: Shedding | None,
    ) -> None:
        if not callable(func):
            raise PenstockError(f"func must be a function; got {func!r}")
        super().__init__(name_of(func, name), key, instances, grouping, journal, shedding)
        self.func = func
        self.form = _form(func, form)
        self._schema = schema
        self._example = example
        refuse_unpicklable(f"func {self.name!r}", func)

    def __call__(self, frame: DataFrame) -> DataFrame:
        """Return the frame with `func` applied to every record."""
        spark = internals.supported_session(frame)
        refuse_reserved(frame)
        returned = schema_of(self._schema)
        work = Work(self.func, self.form, names_of(self.keys), frame.schema, returned)
        if self._example is not None:
            try_example(self.name, work, self._example)
        routed, spec, driver, spill = self._route(spark, frame, self.keys)
        execute = operator(spec, work, driver.reports)
        stage = execute if spill is None else with_spill(spec, spill, execute)
        return routed.mapInArrow(shipped(stage), returned)


def _form(func: Callable[..., Any], form: Form | None) -> Form:
    if form is not None:
        known("form", form, ("dict", "row", "arrow"))
        return form
    try:
        hints = get_type_hints(func)
        first = next(iter(inspect.signature(func).parameters))
    except (TypeError, ValueError, NameError, StopIteration):
        return "dict"
    taken = hints.get(first)
    return "arrow" if taken is pa.RecordBatch else "row" if taken is Row else "dict"
