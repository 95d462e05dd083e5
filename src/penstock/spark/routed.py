"""Operators with a routing stage: route, shuffle, work."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.control import Journal, OperatorPolicies, OperatorStats
from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping, Proactive
from penstock.policies.validation import known, whole
from penstock.spark import internals
from penstock.spark.arguments import Key, Keys, checked_keys, hashed
from penstock.spark.destinations import SHED, Destinations
from penstock.spark.driver.control_plane import ControlPlane, Registration
from penstock.spark.driver.watch import watch
from penstock.spark.executor.columns import ARRIVAL, DESTINATION, KEY
from penstock.spark.executor.router import routing
from penstock.spark.executor.shipping import shipped
from penstock.spark.executor.spec import OperatorSpec
from penstock.spark.shed_arguments import ShedArguments
from penstock.spark.spill import ADDED, BATCH, Spill, refuse_unwritable

# The driver has more memory than the paper's scheduler: keys with a known cost, per instance.
_CAPACITY = 1_024


class RoutedFrame(NamedTuple):
    """A DataFrame with the destination of every record.

    Attributes:
        frame: records; after `_decide` the destination is in a column, after `_route` it is the
            partition.
        spec: spec of the operator, for its tasks.
        plane: control plane that receives the reports of tasks.
        spill: folder of shed records; None if they are not kept.
    """

    frame: DataFrame
    spec: OperatorSpec
    plane: ControlPlane
    spill: Spill | None


class RoutedOperator(ABC):
    """An operator for `DataFrame.transform` whose records are routed by a grouping.

    Args:
        name: name of the operator in stats, journal and checkpoint.
        key: column or columns of the key.
        instances: number of tasks that share the work; None for one per slot.
        grouping: registered name of a grouping, or a grouping.
        journal: file for observations and plans; None keeps them in memory.
        shed: arguments for shedding; None sheds nothing.
    """

    # Whether the operator only sheds, in front of operators that report nothing.
    in_front: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        key: Key,
        *,
        instances: int | None,
        grouping: str | Grouping,
        journal: Path | str | None,
        shed: ShedArguments | None = None,
    ) -> None:
        self.name = name
        self.keys = checked_keys(key)
        self.identity = uuid.uuid4().hex
        self.journal = Journal(journal)
        if instances is not None:
            whole("instances", instances, least=1)
        self._make_grouping = _maker(grouping, instances)
        self._shed = shed
        self._plane: ControlPlane | None = None
        self._closed = False

    @abstractmethod
    def __call__(self, frame: DataFrame) -> DataFrame:
        """Return the frame with the operator applied."""

    def _decide(self, spark: SparkSession, frame: DataFrame, keys: Keys) -> RoutedFrame:
        """Add a column with the destination of each record (see `Destinations`)."""
        internals.protect_from_partial_retries(spark)
        shed = self._shed
        grouping = self._make_grouping(spark.sparkContext.defaultParallelism)
        shedder = shed.shedder_for(grouping.instances) if shed is not None else None
        policies = OperatorPolicies(grouping, shedder)
        policies.warm_up()
        plane = self._plane = ControlPlane.of(spark)
        spill = self._spill(frame)
        registration = Registration(
            spark,
            self.name,
            policies,
            journal=self.journal,
            spill=spill,
            in_front=self.in_front,
        )
        plane.register(self.identity, registration)
        spills_behind = spill is not None and not self.in_front
        spec = OperatorSpec.of(
            self.identity,
            self.name,
            policies,
            address=plane.server.address,
            destinations=Destinations.with_spill(grouping.instances)
            if spills_behind
            else Destinations(grouping.instances),
        )
        given = [hashed(frame, keys), *(shed.columns(frame) if shed is not None else ())]
        route = _udf(routing(spec, plane.reports), len(given))
        decided = frame.withColumn(DESTINATION, route(*given))
        if frame.isStreaming:  # batch jobs have no progress to show counts in
            counts = _counts(spec.destinations, sheds=shed is not None)
            decided = decided.observe(f"penstock {self.name}", *counts)
        return RoutedFrame(decided, spec, plane, spill)

    def _route(self, spark: SparkSession, frame: DataFrame, keys: Keys) -> RoutedFrame:
        """Send every record to its destination, with its columns named by their numbers.

        The hash of the key follows them and, if the operator sheds, the time of arrival.
        """
        decided = self._decide(spark, frame, keys)
        records, spec = decided.frame, decided.spec
        if self._shed is not None and not spec.destinations.spill_tasks:
            records = records.filter(sf.col(DESTINATION) != SHED)
        partitions = spec.destinations.partitions
        shuffled = records.repartitionById(partitions, DESTINATION).drop(DESTINATION)
        # Hashing the key again is cheaper than sending its hash through the shuffle. Columns go
        # by number: mapInArrow refuses names with dots.
        more = {KEY: hashed(frame, keys)}
        if self._shed is not None:
            more[ARRIVAL] = self._shed.columns(frame)[0]
        numbers = map(str, range(len(frame.columns)))
        return decided._replace(frame=shuffled.withColumns(more).toDF(*numbers, *more))

    def _spill(self, frame: DataFrame) -> Spill | None:
        """Return the spill folder, or refuse one that cannot be used; None without one."""
        if self._shed is None or self._shed.spill is None:
            return None
        added = *ADDED, BATCH
        taken = [name for name in frame.columns if name.lower() in added]
        if taken:
            raise PenstockError(
                f"spill adds columns {', '.join(added)}; rename {', '.join(taken)} of the DataFrame"
            )
        spark = frame.sparkSession.sparkContext
        refuse_unwritable(self._shed.spill, local=str(spark.master).startswith("local"))
        return Spill(self._shed.spill, frame.schema, self.name, spark.applicationId)

    @property
    def limit_ms(self) -> float | None:
        """Limit of the shedder's target; None without one."""
        target = self._shed.shedder.target if self._shed is not None else None
        return target.limit_ms if target is not None else None

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return self._closed

    def stats(self) -> OperatorStats:
        """Return the operator's counts and costs in its newest query."""
        found = self.all_stats()
        if not found:
            raise PenstockError(f"operator {self.name!r} has not run yet; start its query first")
        return found[-1]

    def all_stats(self) -> list[OperatorStats]:
        """Return the operator's counts and costs, for each query that has used it."""
        if self._plane is None:
            return []
        self._plane.flush()
        return [controller.stats() for controller in self._plane.controllers(self.identity)]

    def watch(self, seconds: float | None = None) -> None:
        """Show the stats in the terminal until Ctrl-C, or for a number of seconds."""
        watch(self.all_stats, seconds)

    def close(self) -> None:
        """Save everything learnt, and forget the operator; its queries must have ended."""
        self._closed = True
        if self._plane is not None:
            self._plane.unregister(self.identity)
            self._plane = None


def _maker(grouping: str | Grouping, instances: int | None) -> Callable[[int], Grouping]:
    """Return a function that makes the grouping when the number of slots is known."""
    if isinstance(grouping, Grouping):
        if instances is not None and instances != grouping.instances:
            raise PenstockError(
                f"instances must be that of the grouping ({grouping.instances}) or left out; "
                f"got {instances}"
            )
        return lambda _: grouping
    known("grouping", grouping, Grouping.registered())
    more = {"capacity": _CAPACITY} if grouping == Proactive.name else {}
    Grouping.named(grouping, instances=instances or 1, **more)
    return lambda slots: Grouping.named(grouping, instances=instances or slots, **more)


def _counts(destinations: Destinations, *, sheds: bool) -> list[Column]:
    """Return the counts that a query's progress shows for an operator."""
    counts = [sf.count(sf.lit(1)).alias("received")]
    if sheds:
        shed = destinations.is_shed(sf.col(DESTINATION))
        counts.append(sf.count_if(shed).alias("shed"))
        counts.append(sf.count_if(~shed).alias("admitted"))
    return counts


def _udf(route: Callable[[Any], Iterator[pa.Array]], columns: int) -> Callable[..., Column]:
    function = shipped(route)
    # Spark reads the kind of a function from its annotations.
    taken: Any = Iterator[pa.Array] if columns == 1 else Iterator[tuple[pa.Array, ...]]
    function.__annotations__ = {"batches": taken, "return": Iterator[pa.Array]}
    udf: Any = sf.arrow_udf(function, "int")  # type: ignore[attr-defined]
    # Nondeterministic, so that Spark evaluates it once: it counts the records that it routes.
    return cast(Callable[..., Column], udf.asNondeterministic())
