"""`penstock.aggregate`: keyed aggregation in which several tasks share a hot key."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.types import StructField, StructType

from penstock.aggregators import Aggregator, Functions
from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping
from penstock.policies.validation import milliseconds
from penstock.spark import internals
from penstock.spark.arguments import (
    Key,
    checked_keys,
    key_columns,
    name_of,
    refuse_reserved,
    refuse_unpicklable,
    schema_of,
)
from penstock.spark.environment import refuse_unfit_arrow
from penstock.spark.executor import merging
from penstock.spark.executor.merging import PAYLOAD, STATE, Keyed
from penstock.spark.executor.shipping import shipped
from penstock.spark.routed import RoutedOperator

_END = "_penstock_end"
WINDOW = "window"


def aggregate(
    aggregator: Aggregator[Any] | None = None,
    *,
    key: Key,
    schema: StructType | str,
    zero: Callable[[], Any] | None = None,
    update: Callable[[Any, dict[str, Any]], Any] | None = None,
    merge: Callable[[Any, Any], Any] | None = None,
    finish: Callable[[Any], Any] | None = None,
    size: str | Column | None = None,
    instances: int | None = None,
    grouping: str | Grouping = "cg",
    window: Column | None = None,
    ttl: float | str | None = None,
    name: str | None = None,
    journal: Path | str | None = None,
    record: Path | str | None = None,
) -> "AggregateOperator":
    """Return an operator for `DataFrame.transform`: one record per key, from all its records.

    The expensive `update` runs in parallel: several tasks share the records of a hot key. Spark's
    own stateful operator merges their partial states per key in every micro-batch. The result is
    therefore exactly-once, and survives restarts, like any aggregation of Spark's. On a batch
    DataFrame the same call is a two-phase aggregation.

    The result has the key's columns (and `window`), then those of `schema`. Write a stream in
    update mode: it has one row for each key that has changed in a micro-batch.

    Args:
        aggregator: object with the methods zero, update, merge and finish, such as those in
            `penstock.aggregators`; or leave it out and give the four functions.
        key: column, columns or expressions; null is a key.
        schema: schema of the results of `finish`.
        zero: function that returns the state of no records.
        update: function that returns a state with one more record (a dict).
        merge: function that returns the state of two states; associative and commutative.
        finish: function that returns a dict, or the value if the schema has one column; None for
            no output. The state itself by default.
        size: column or expression that the cost of an update follows, such as
            "octet_length(text)"; it needs a grouping that learns costs, such as "factoring".
        instances: number of tasks that share the updates; one per slot of the cluster by default.
            On unequal machines give a few times as many: an idle executor gets the next task.
        grouping: registered name, or a grouping (its own `instances` then counts).
        window: window, as returned by `pyspark.sql.functions.window`: the aggregation is per
            window, too, and forgets a window when the watermark has passed its end. The DataFrame
            needs `withWatermark`.
        ttl: time without a record after which a key is forgotten, such as "2 hours" (processing
            time); a number is in milliseconds.
        name: name of the operator in stats, journal and checkpoint; unique in a query. The
            aggregator's name by default.
        journal: file for observations and plans (JSON lines, rotated).
        record: folder for a sampled trace of the updates, for `penstock rehearse`; see
            `penstock.balance`.

    Example:
        >>> from penstock.aggregators import Mean
        >>> op = aggregate(Mean("price"), key="shop", schema="mean double, count long")
        >>> op.name
        'Mean'
    """
    return AggregateOperator(
        _aggregator(aggregator, zero=zero, update=update, merge=merge, finish=finish),
        key,
        schema,
        size=size,
        instances=instances,
        grouping=grouping,
        window=window,
        ttl=ttl,
        name=name_of(update if aggregator is None else aggregator, name),
        journal=journal,
        record=record,
    )


class AggregateOperator(RoutedOperator):
    """A keyed aggregation: made by `penstock.aggregate`, used by `DataFrame.transform`."""

    def __init__(
        self,
        aggregator: Aggregator[Any],
        key: Key,
        schema: StructType | str,
        *,
        size: str | Column | None = None,
        instances: int | None,
        grouping: str | Grouping,
        window: Column | None,
        ttl: float | str | None,
        name: str,
        journal: Path | str | None,
        record: Path | str | None = None,
    ) -> None:
        super().__init__(
            name,
            checked_keys(key),
            instances=instances,
            grouping=grouping,
            journal=journal,
            record=record,
            size=size,
        )
        self.aggregator = aggregator
        if window is not None and not isinstance(window, Column):
            raise PenstockError(
                "window must be a column, such as pyspark.sql.functions.window('time', '1 hour'); "
                f"got {window!r}"
            )
        if window is not None and "session_window" in str(window):
            raise PenstockError("window must have a fixed length; session_window has none")
        if window is not None and ttl is not None:
            raise PenstockError(
                "ttl must be left out with a window: a window is forgotten at its end"
            )
        self.window = window
        self.ttl_ms = None if ttl is None else _whole_milliseconds(ttl)
        self._schema = schema
        refuse_unpicklable(f"aggregator {name!r}", aggregator)

    def __call__(self, frame: DataFrame) -> DataFrame:
        """Return the frame aggregated by key."""
        spark = internals.supported_session(frame)
        if frame.isStreaming:
            refuse_unfit_arrow(pyspark.__version__, pa.__version__)
        refuse_reserved(frame)
        keys = key_columns(frame, self.keys)
        if self.window is not None:
            if WINDOW in keys:
                raise PenstockError(
                    "key must not have a column 'window' beside a window; rename it"
                )
            keys[WINDOW] = self.window
        keyed = frame.select("*", *(c.alias(f"_penstock_{i}") for i, c in enumerate(keys.values())))
        added = keyed.columns[len(frame.columns) :]
        key = StructType(
            [
                StructField(name, field.dataType, field.nullable)
                for name, field in zip(keys, keyed.select(*added).schema.fields, strict=True)
            ]
        )
        if self.window is not None:
            _refuse_window(keyed.schema.fields[-1], frame.isStreaming)
        returned = schema_of(self._schema)
        _refuse_twice(key, returned)
        work = Keyed(self.name, self.aggregator, given=frame.schema, key=key, returned=returned)
        routed = self._route(spark, keyed, tuple(added), record=True)
        numbered = [
            StructField(str(i), merging.grouped_by(field.dataType))
            for i, field in enumerate(key.fields)
        ]
        payload = StructType([*numbered, *schema_of(PAYLOAD).fields])
        partial = merging.partial(routed.spec, work, routed.plane.reports)
        partials = routed.frame.mapInArrow(shipped(partial), payload)
        merged = self._merge(work, partials, frame.isStreaming)
        both = StructType([*key.fields, *returned.fields])
        return merged.mapInArrow(shipped(merging.finish(work)), both)

    def _merge(self, work: Keyed, partials: DataFrame, streaming: bool) -> DataFrame:
        """Merge partial states per key; on a stream, with the state that Spark keeps for it."""
        columns = [str(i) for i in range(len(work.key))]
        if not streaming:
            return partials.groupBy(*columns).applyInArrow(merging.merge_all(work), PAYLOAD)
        timeout, window = GroupStateTimeout.NoTimeout, None
        if self.ttl_ms is not None:
            timeout = GroupStateTimeout.ProcessingTimeTimeout
        if self.window is not None:
            timeout, window = GroupStateTimeout.EventTimeTimeout, len(columns) - 1
            end = internals.as_event_time(sf.col(f"`{window}`.end"), _END)
            partials = partials.select("*", end)
        return partials.groupBy(*columns).applyInPandasWithState(
            merging.merge_into_state(work, self.ttl_ms, window),
            PAYLOAD,
            f"{STATE} binary",
            "update",
            timeout,
        )


def _aggregator(
    aggregator: Aggregator[Any] | None,
    *,
    zero: Callable[[], Any] | None,
    update: Callable[[Any, dict[str, Any]], Any] | None,
    merge: Callable[[Any, Any], Any] | None,
    finish: Callable[[Any], Any] | None,
) -> Aggregator[Any]:
    functions = {"zero": zero, "update": update, "merge": merge, "finish": finish}
    given = [name for name, function in functions.items() if function is not None]
    if isinstance(aggregator, type):
        raise PenstockError(
            f"aggregator must be an object, not a class; write {aggregator.__name__}(...)"
        )
    if aggregator is not None:
        missing = [name for name in functions if not callable(getattr(aggregator, name, None))]
        if missing:
            raise PenstockError(
                f"aggregator must have the methods zero, update, merge and finish; "
                f"{type(aggregator).__name__} has no {', '.join(missing)}"
            )
        if given:
            raise PenstockError(f"{given[0]} must be left out if an aggregator is given")
        return aggregator
    functions["finish"] = finish or _itself
    for name, function in functions.items():
        if not callable(function):
            raise PenstockError(f"{name} must be a function; got {function!r}")
    return Functions(**functions)  # type: ignore[arg-type]  # all are callable


def _itself(state: Any) -> Any:  # noqa: ANN401 - a user's state
    return state


def _refuse_window(window: StructField, streaming: bool) -> None:
    kind = window.dataType
    if not isinstance(kind, StructType) or kind.names != ["start", "end"]:
        raise PenstockError(
            f"window must be that of pyspark.sql.functions.window; got {kind.simpleString()}"
        )
    if streaming and not internals.is_event_time(window):
        raise PenstockError(
            "window needs a watermark on its time column, or Spark would keep its state for ever; "
            "call withWatermark(time, delay) on the DataFrame first"
        )


def _whole_milliseconds(ttl: float | str) -> int:
    found = int(milliseconds("ttl", ttl))
    if found < 1:
        raise PenstockError(f"ttl must be at least 1 ms; got {ttl!r}")
    return found


def _refuse_twice(key: StructType, returned: StructType) -> None:
    names = [name.lower() for name in [*key.names, *returned.names]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PenstockError(
            f"schema must not repeat columns of the key, which the result has anyway; "
            f"got {', '.join(twice)} twice"
        )
