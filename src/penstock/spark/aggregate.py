"""`penstock.aggregate`: keyed aggregation in which a hot key is shared by several tasks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.types import StructField, StructType

from penstock.aggregators import Aggregator, Functions
from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping
from penstock.spark import internals
from penstock.spark.merging import (
    PAYLOAD,
    STATE,
    Keyed,
    finish,
    grouped_by,
    merge_all,
    merge_into_state,
    partial,
)
from penstock.spark.operators import (
    Key,
    RoutedOperator,
    key_columns,
    name_of,
    refuse_reserved,
    refuse_unpicklable,
    schema_of,
)
from penstock.spark.tasks import shipped

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
    instances: int | None = None,
    grouping: str | Grouping = "cg",
    window: Column | None = None,
    ttl: str | None = None,
    name: str | None = None,
    journal: Path | str | None = None,
) -> "Aggregation":
    """Return an operator for `DataFrame.transform`: one record per key, from all its records.

    The expensive `update` runs where the grouping says: a hot key's records on several tasks, in
    parallel. Their partial states are merged per key by Spark's own stateful operator in every
    micro-batch, so the result is exactly-once and survives restarts like any aggregation of
    Spark's. On a batch DataFrame the same call is a two-phase aggregation.

    The result has the key's columns (and `window`), then those of `schema`. On a stream write it
    in update mode: it has one row for each key that has changed in a micro-batch.

    Args:
        aggregator: an object with the methods zero, update, merge and finish, as those in
            `penstock.aggregators`; or leave it out and give the four functions.
        key: column, columns or expressions; null is a key.
        schema: of what `finish` returns.
        zero: returns the state of no records.
        update: returns a state with one record (a dict) more.
        merge: returns the state of two; associative and commutative.
        finish: returns a dict, or the value if the schema has one column; None for no output.
            By default the state itself.
        instances: tasks that share the updates; by default as many as the cluster has slots. On
            unequal machines take a few times as many: Spark gives the next one to who is idle.
        grouping: registered name, or a policy object (its own `instances` then counts).
        window: as of `pyspark.sql.functions.window`: aggregates per window, too, and forgets one
            when the watermark has passed its end. The DataFrame needs `withWatermark`.
        ttl: forget a key after so long without a record, as "2 hours" (processing time).
        name: of the operator in stats, journal and checkpoint; unique in a query. By default that
            of the aggregator.
        journal: file for observations and plans (JSON lines, rotated).

    Example:
        >>> from penstock.aggregators import Mean
        >>> op = aggregate(Mean("price"), key="shop", schema="mean double, count long")
        >>> op.name
        'Mean'
    """
    return Aggregation(
        _aggregator(aggregator, zero, update, merge, finish),
        key,
        schema,
        instances,
        grouping,
        window,
        ttl,
        name_of(update if aggregator is None else aggregator, name),
        journal,
    )


class Aggregation(RoutedOperator):
    """A keyed aggregation: made by `penstock.aggregate`, used by `DataFrame.transform`."""

    def __init__(
        self,
        aggregator: Aggregator[Any],
        key: Key,
        schema: StructType | str,
        instances: int | None,
        grouping: str | Grouping,
        window: Column | None,
        ttl: str | None,
        name: str,
        journal: Path | str | None,
    ) -> None:
        super().__init__(name, key, instances, grouping, journal)
        self.aggregator = aggregator
        if window is not None and not isinstance(window, Column):
            raise PenstockError(
                "window must be a column, as pyspark.sql.functions.window('time', '1 hour'); "
                f"got {window!r}"
            )
        if window is not None and "session_window" in str(window):
            raise PenstockError("window must have a fixed length; session_window has none")
        if window is not None and ttl is not None:
            raise PenstockError(
                "ttl must be left out with a window: a window is forgotten at its end"
            )
        self.window = window
        self.ttl_ms = None if ttl is None else _milliseconds(ttl)
        self._schema = schema
        refuse_unpicklable(f"aggregator {name!r}", aggregator)

    def __call__(self, frame: DataFrame) -> DataFrame:
        """Return the frame aggregated by key."""
        spark = internals.supported_session(frame)
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
        work = Keyed(self.name, self.aggregator, frame.schema, key, returned)
        routed, spec, driver, _ = self._route(spark, keyed, tuple(added))
        numbered = [
            StructField(str(i), grouped_by(field.dataType)) for i, field in enumerate(key.fields)
        ]
        payload = StructType([*numbered, *schema_of(PAYLOAD).fields])
        partials = routed.mapInArrow(shipped(partial(spec, work, driver.reports)), payload)
        merged = self._merge(work, partials, frame.isStreaming)
        both = StructType([*key.fields, *returned.fields])
        return merged.mapInArrow(shipped(finish(work)), both)

    def _merge(self, work: Keyed, partials: DataFrame, streaming: bool) -> DataFrame:
        """Merge partial states per key: with what Spark has kept of it, if this is a stream."""
        columns = [str(i) for i in range(len(work.key))]
        if not streaming:
            return partials.groupBy(*columns).applyInArrow(merge_all(work), PAYLOAD)
        timeout, window = GroupStateTimeout.NoTimeout, None
        if self.ttl_ms is not None:
            timeout = GroupStateTimeout.ProcessingTimeTimeout
        if self.window is not None:
            timeout, window = GroupStateTimeout.EventTimeTimeout, len(columns) - 1
            end = internals.as_event_time(sf.col(f"`{window}`.end"), _END)
            partials = partials.select("*", end)
        return partials.groupBy(*columns).applyInPandasWithState(
            merge_into_state(work, self.ttl_ms, window),
            PAYLOAD,
            f"{STATE} binary",
            "update",
            timeout,
        )


def _aggregator(
    aggregator: Aggregator[Any] | None,
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


def _itself(state: Any) -> Any:  # noqa: ANN401 - whatever it is
    return state


def _refuse_window(window: StructField, streaming: bool) -> None:
    kind = window.dataType
    if not isinstance(kind, StructType) or kind.names != ["start", "end"]:
        raise PenstockError(
            f"window must be that of pyspark.sql.functions.window; got {kind.simpleString()}"
        )
    if streaming and not internals.is_event_time(window):
        raise PenstockError(
            "window needs a watermark on its time column, or its states would be kept for ever; "
            "call withWatermark(time, delay) on the DataFrame first"
        )


def _milliseconds(ttl: str) -> int:
    try:
        found = int(pd.Timedelta(ttl) / pd.Timedelta(milliseconds=1))
    except ValueError:
        found = 0
    if found < 1:
        raise PenstockError(f"ttl must be a time above 0, as '2 hours'; got {ttl!r}")
    return found


def _refuse_twice(key: StructType, returned: StructType) -> None:
    names = [name.lower() for name in [*key.names, *returned.names]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PenstockError(
            f"schema must not repeat columns of the key, which are part of the result anyway; "
            f"got {', '.join(twice)} twice"
        )
