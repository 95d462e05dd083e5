"""`penstock.balance`: an operator whose records go to tasks by their cost."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping
from penstock.policies.shedding import Shedder
from penstock.spark import internals
from penstock.spark.arguments import (
    Key,
    name_of,
    names_of,
    refuse_reserved,
    refuse_unpicklable,
    schema_of,
)
from penstock.spark.error_arguments import (
    ErrorArguments,
    checked_concurrency,
    error_arguments,
    refuse_unfit,
)
from penstock.spark.executor.errors import Action, OnError
from penstock.spark.executor.example import try_example
from penstock.spark.executor.forms import Form, is_record_form
from penstock.spark.executor.function import UserFunction
from penstock.spark.executor.shipping import shipped
from penstock.spark.executor.spill_writer import executing_or_spilling
from penstock.spark.executor.work import executing
from penstock.spark.forms import form_of, is_async, is_opened
from penstock.spark.routed import RoutedOperator
from penstock.spark.shed_arguments import ShedArguments, shed_arguments

log = logging.getLogger("penstock")


def balance(
    func: Callable[..., Any],
    *,
    key: Key | None,
    schema: StructType | str,
    size: str | Column | None = None,
    instances: int | None = None,
    grouping: str | Grouping = "factoring",
    tail: int | None = None,
    form: Form | None = None,
    name: str | None = None,
    journal: Path | str | None = None,
    record: Path | str | None = None,
    example: dict[str, Any] | None = None,
    shed: Shedder | None = None,
    arrival: str | Column | None = None,
    protect: str | Column | None = None,
    spill: str | None = None,
    on_error: Action = "fail",
    errors: str | None = None,
    max_errors: float | None = None,
    timeout: float | str | None = None,
    concurrency: int | None = None,
) -> "BalanceOperator":
    """Return an operator for `DataFrame.transform` that calls `func` for every record.

    The grouping decides which task gets which record, by the cost of earlier records of the same
    key. Tasks that start later are smaller, so that idle slots make up for errors. The operator
    works on streaming and on batch DataFrames; the result is an ordinary DataFrame.

    Args:
        func: function that takes a record and returns a record, None, or an iterable of records.
            A record is a dict, or a Row if the parameter's annotation is `pyspark.sql.Row`; such
            a function may be async. If the annotation is `pandas.DataFrame`,
            `pyarrow.RecordBatch` or `pyarrow.Table`, the function takes and returns whole
            batches; if it is an `Iterator` of one of them, all batches of a task. Only the cost
            of a batch is measured, and costs of keys are estimated from many batches: prefer
            single records where one takes a millisecond or more. A class, or an object with
            `open` or `close`, is opened once in each Python worker; its `__call__` is the function.
        key: column, columns or expressions that drive the cost. Any type; null is a key. None
            stands for one key of all records: then only the size counts.
        schema: schema of the records that `func` returns.
        size: column or expression that the cost of a record of a key follows, such as
            "octet_length(text)"; it must be a number. Records without a size, or with a negative
            one, count as records of mean size.
        instances: number of tasks that share the work; one per slot of the cluster by default.
        grouping: registered name, or a grouping (its own `instances` then counts).
        tail: largest number of small tasks that "factoring" starts after the first ones, which
            absorb errors of its estimates; by default it follows from `instances`.
        form: "dict", "row", "pandas", "arrow", "table", "pandas_iterator", "arrow_iterator" or
            "table_iterator", if the annotation of the function does not name it.
        name: name of the operator in stats, journal and checkpoint; unique in a query. The
            function's name by default.
        journal: file for observations and plans (JSON lines, rotated).
        record: folder for a sampled trace, for `penstock rehearse`: Parquet files with hash of key,
            size, cost, arrival, executor and task, and no contents of records. It has at most
            10,000 records of a batch and the newest 500 batches. A task that runs again is
            recorded once; a batch is written when it is complete. The driver writes the files, so
            any folder of the driver will do.
        example: record to try the function with now. A result that does not fit the schema is
            then found before the query starts.
        shed: shedder, such as
            `penstock.shedding.LoadAware(target=penstock.shedding.average("2 s"))`. Records that
            would make its target fail are not processed. The operator sets its `instances`.
        arrival: timestamp column since which records wait; needed to shed.
        protect: condition of records that must not be shed, such as "priority = 'high'".
        spill: folder in which shed records are kept as Parquet files, exactly once; see
            `penstock.replay`.
        on_error: action for a record on which the function fails. "fail" fails the query. "skip"
            counts the record, and the journal shows some of them. "keep" also writes it to the
            folder `errors`. A batch function is called again with halves of a batch that fails,
            down to single records.
        errors: folder in which failed records are kept as Parquet files, exactly once, with their
            error, traceback, operator, batch and instance; see `penstock.replay`.
        max_errors: largest share in (0, 1), or number, of failed records in a batch; more of them
            fail the query.
        timeout: time after which a call counts as failed, such as "5 s"; a number is in
            milliseconds. It needs an async function, or `concurrency`.
        concurrency: number of records that a task executes at a time: in threads, or awaited on
            one event loop if the function is async. The longest records start first.

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
        size=size,
        instances=instances,
        grouping=grouping,
        tail=tail,
        form=form,
        name=name,
        journal=journal,
        record=record,
        example=example,
        shed=shed_arguments(shed, arrival=arrival, protect=protect, spill=spill),
        failing=error_arguments(on_error, errors=errors, max_errors=max_errors, timeout=timeout),
        concurrency=concurrency,
    )


class BalanceOperator(RoutedOperator):
    """A balanced operator: made by `penstock.balance`, used by `DataFrame.transform`."""

    def __init__(
        self,
        func: Callable[..., Any],
        key: Key | None,
        schema: StructType | str,
        *,
        size: str | Column | None = None,
        instances: int | None,
        grouping: str | Grouping,
        tail: int | None,
        form: Form | None,
        name: str | None,
        journal: Path | str | None,
        record: Path | str | None = None,
        example: dict[str, Any] | None,
        shed: ShedArguments | None,
        failing: ErrorArguments,
        concurrency: int | None,
    ) -> None:
        if not callable(func):
            raise PenstockError(f"func must be a function; got {func!r}")
        super().__init__(
            name_of(func, name),
            key,
            instances=instances,
            grouping=grouping,
            journal=journal,
            record=record,
            shed=shed,
            size=size,
            servers=checked_concurrency(concurrency, sheds=shed is not None),
            together=not is_record_form(form_of(func, form)),
            **({} if tail is None else {"tail": tail}),
        )
        self.func = func
        self.form = form_of(func, form)
        self._failing = failing
        self.errors_path = failing.folder
        self._concurrency = concurrency or 1
        refuse_unfit(failing, self.form, awaits=is_async(func), concurrency=concurrency)
        if shed is not None and shed.spill is not None and shed.spill == failing.folder:
            raise PenstockError(f"errors and spill must be different folders; got {shed.spill!r}")
        self._schema = schema
        self._example = example
        refuse_unpicklable(f"func {self.name!r}", func)

    def __call__(self, frame: DataFrame) -> DataFrame:
        """Return the frame with `func` applied to every record."""
        spark = internals.supported_session(frame)
        refuse_reserved(frame)
        schema, lost = internals.with_watermark_of(frame.schema, schema_of(self._schema))
        if lost:
            log.warning(
                "%s: the watermark of %s is lost, because the schema has no such column of the "
                "same type; add it, or call withWatermark after the operator",
                self.name,
                ", ".join(lost),
            )
        function = UserFunction(
            self.name,
            self.func,
            form=self.form,
            keys=names_of(self.keys),
            given=frame.schema,
            returned=schema,
            zone=str(spark.conf.get("spark.sql.session.timeZone")),
            awaits=is_async(self.func),
            timeout_s=self._failing.timeout_s,
            opens=is_opened(self.func),
            concurrency=self._concurrency,
        )
        if self._example is not None:
            try_example(function, self._example)
        routed = self._route(spark, frame, self.keys)
        on_error = OnError(self._failing.action, routed.errors, self._failing.most)
        stage = executing(routed.spec, function, routed.plane.reports, on_error=on_error)
        if routed.spill is not None:
            stage = executing_or_spilling(routed.spec, routed.spill, stage)
        return routed.frame.mapInArrow(shipped(stage), function.returned)
