"""Operators with a routing stage: route, shuffle, work."""

import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.control import Callbacks, Journal, OnBatch, OperatorPolicies, OperatorStats
from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping
from penstock.policies.validation import whole
from penstock.spark import internals
from penstock.spark.arguments import (
    Key,
    Keys,
    checked_keys,
    hashed,
    hashed_record,
    refuse_no_size,
    size_column,
)
from penstock.spark.destinations import SHED, Destinations
from penstock.spark.driver.control_plane import ControlPlane
from penstock.spark.driver.recorder import Recorder
from penstock.spark.driver.registry import Registration
from penstock.spark.driver.watch import watch
from penstock.spark.environment import use_own_python
from penstock.spark.executor.columns import (
    ARRIVAL,
    DESTINATION,
    KEY,
    PARTITION,
    PROTECTED,
    RECORD,
    SIZE,
)
from penstock.spark.executor.router import routing
from penstock.spark.executor.shipping import shipped
from penstock.spark.executor.spec import OperatorSpec
from penstock.spark.folders import errors_folder, spill_folder
from penstock.spark.groupings import grouping_maker, measuring, refuse_costless
from penstock.spark.shed_arguments import ShedArguments
from penstock.spark.spill import Spill


class RoutedFrame(NamedTuple):
    """A DataFrame with the destination of every record.

    Attributes:
        frame: records; after `_decide` the destination is in a column, after `_route` it is the
            partition.
        spec: spec of the operator, for its tasks.
        plane: control plane that receives the reports of tasks.
        spill: folder of shed records; None if they are not kept.
        errors: folder of failed records; None if they are not kept.
    """

    frame: DataFrame
    spec: OperatorSpec
    plane: ControlPlane
    spill: Spill | None
    errors: Spill | None


class RoutedOperator(ABC):
    """An operator for `DataFrame.transform` whose records are routed by a grouping.

    Args:
        name: name of the operator in stats, journal and checkpoint.
        key: column or columns of the key; None if only the size counts.
        instances: number of tasks that share the work; None for one per slot.
        grouping: registered name of a grouping, or a grouping.
        params: more parameters of a grouping that is given by its name.
        journal: file for observations and plans; None keeps them in memory.
        shed: arguments for shedding; None sheds nothing.
        size: column or expression that the cost of a record follows; None for costs by key only.
        servers: number of records that an instance executes at a time.
        record: folder of a trace; None records nothing.
    """

    # Whether the operator only sheds, in front of operators that report nothing.
    in_front: ClassVar[bool] = False
    # Folder in which failed records are kept; None if they are not kept.
    errors_path: str | None = None

    def __init__(
        self,
        name: str,
        key: Key | None,
        *,
        instances: int | None,
        grouping: str | Grouping,
        journal: Path | str | None,
        shed: ShedArguments | None = None,
        size: str | Column | None = None,
        servers: int = 1,
        record: Path | str | None = None,
        together: bool = False,
        **params: Any,  # noqa: ANN401 - parameters of any grouping
    ) -> None:
        self.name = name
        # Without a key all records are alike, but for their sizes.
        self.keys = () if key is None and size is not None else checked_keys(key)
        self.identity = uuid.uuid4().hex
        self.journal = Journal(journal)
        if instances is not None:
            whole("instances", instances, least=1)
        refuse_no_size(size)
        self._size = size
        if size is not None:
            refuse_costless(grouping, None if shed is None else shed.shedder)
        # Sizes divide the cost of a call among its records; without them keys may do so.
        self._together = together and size is None
        self._make_grouping = grouping_maker(
            grouping,
            instances,
            params,
            sized=size is not None,
            servers=servers,
            together=self._together,
        )
        self._follows_slots = instances is None and not isinstance(grouping, Grouping)
        self._shed = shed
        self._callbacks = Callbacks(name)
        self._recorder = Recorder.of(record, name)
        if self._recorder is not None:
            self._callbacks.add(self._recorder.write)
        self._plane: ControlPlane | None = None
        self._closed = False

    @abstractmethod
    def __call__(self, frame: DataFrame) -> DataFrame:
        """Return the frame with the operator applied."""

    def _decide(self, spark: SparkSession, frame: DataFrame, keys: Keys) -> RoutedFrame:
        """Add a column with the destination of each record (see `Destinations`)."""
        use_own_python(spark)
        shed = self._shed
        grouping = self._make_grouping(spark)
        shedder = shed.shedder_for(grouping.instances) if shed is not None else None
        if shedder is not None:
            sized = self._size is not None
            shedder = measuring(shedder, sized=sized, together=self._together)
        policies = OperatorPolicies(grouping, shedder)
        policies.warm_up()
        if self._recorder is not None:
            self._recorder.begin(spark, grouping.name, in_front=self.in_front)
        plane = ControlPlane.of(spark)
        if plane is not self._plane:
            weakref.finalize(self, plane.forget, self.identity)
        self._plane = plane
        spill_path = self._shed.spill if self._shed is not None else None
        spill = spill_folder(frame, spill_path, operator=self.name)
        errors = errors_folder(frame, self.errors_path, operator=self.name)
        registration = Registration(
            spark,
            self.identity,
            self.name,
            policies,
            journal=self.journal,
            spill=spill,
            errors=errors,
            in_front=self.in_front,
            follows_slots=self._follows_slots,
            callbacks=self._callbacks,
            recorder=self._recorder,
            streaming=frame.isStreaming,
        )
        reads = self._read_by_router(frame, keys, policies)
        spills_behind = spill is not None and not self.in_front
        spec = OperatorSpec.of(
            plane.registry.add(registration),
            self.name,
            policies,
            address=plane.server.address,
            destinations=Destinations.with_spill(grouping.tasks, grouping.instances)
            if spills_behind
            else Destinations(grouping.tasks),
            use=internals.identity_of(frame),
            reads=tuple(reads),
            asks=errors is not None,
            record=0 if self._recorder is None else Recorder.limit(grouping.tasks),
        )
        route = _udf(routing(spec, plane.reports), len(reads))
        # Columns of their own: inside of a Python function Spark takes the number of the task for
        # that of the partition, and tasks behind the shuffle need the size again.
        for name in (SIZE, PARTITION):
            if name in reads:
                frame = frame.withColumn(name, reads[name])
                reads[name] = sf.col(name)
        decided = frame.withColumn(DESTINATION, route(*reads.values()))
        if frame.isStreaming:  # batch jobs have no progress to show counts in
            counts = _counts(spec.destinations, sheds=shed is not None)
            decided = decided.observe(f"penstock {self.name}", *counts)
        return RoutedFrame(decided, spec=spec, plane=plane, spill=spill, errors=errors)

    def _read_by_router(
        self, frame: DataFrame, keys: Keys, policies: OperatorPolicies
    ) -> dict[str, Column]:
        """Return the columns that the routing stage needs, by their names."""
        reads = {KEY: hashed(frame, keys)}
        if self._size is not None:
            reads[SIZE] = size_column(frame, self._size)
        if policies.order_matters:
            if not internals.has_stable_order(frame):
                reads[RECORD] = hashed_record(frame)
            if not internals.is_deterministic(frame.select(*reads.values())):
                internals.protect_from_partial_retries(frame.sparkSession)
        if self._shed is not None:
            reads[ARRIVAL], reads[PROTECTED] = self._shed.columns(frame)
        if self.in_front:
            reads[PARTITION] = sf.spark_partition_id()
        return reads

    def _route(
        self, spark: SparkSession, frame: DataFrame, keys: Keys, *, record: bool = False
    ) -> RoutedFrame:
        """Send every record to its destination, with its columns named by their numbers.

        Columns of Penstock's own follow: the size if costs follow it, the hash of the key, and the
        number of the partition. Further ones are the time of arrival if the operator sheds, and the
        hash of the record if `record` is true.
        """
        decided = self._decide(spark, frame, keys)
        records, spec = decided.frame, decided.spec
        if self._shed is not None and not spec.destinations.spill_tasks:
            records = records.filter(sf.col(DESTINATION) != SHED)
        partitions = spec.destinations.partitions
        shuffled = records.repartitionById(partitions, DESTINATION).drop(DESTINATION)
        # Hashing the key again is cheaper than sending its hash through the shuffle. Columns go
        # by number: mapInArrow refuses names with dots.
        more = {KEY: hashed(frame, keys), PARTITION: sf.spark_partition_id()}
        if self._shed is not None:
            more[ARRIVAL] = self._shed.columns(frame)[0]
        numbers = [str(i) for i in range(len(frame.columns))]
        wide = shuffled.withColumns(more)
        routed = wide.toDF(*numbers, *wide.columns[len(numbers) :])
        if record:
            # After the columns have their names: Spark's optimizer looks at all combinations of old
            # and new names of the columns in an expression.
            routed = routed.withColumn(RECORD, hashed(routed, tuple(numbers)))
        return decided._replace(frame=routed)

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

    def on_batch(self, function: OnBatch) -> OnBatch:
        """Call a function with every finished batch of the operator, in all its queries.

        The function runs on a thread of the driver, after the batch: it delays neither the query
        nor the reports of tasks. A function that fails is logged once, and is called again for the
        next batch; the query goes on. If 1,000 batches wait for a slow function, newer ones are
        dropped, and this is logged.

        Args:
            function: function of one `penstock.control.FinishedBatch`: an immutable object with
                counts, times and warnings. Its result is ignored.

        Returns:
            The function itself, so that `@op.on_batch` works.

        Example:
            >>> import penstock
            >>> op = penstock.balance(lambda r: r, key="k", schema="k string", name="enrich")
            >>> @op.on_batch
            ... def show(batch):
            ...     print(batch.operator, batch.processed, batch.duration_ms)
        """
        self._callbacks.add(function)
        return function

    def close(self) -> None:
        """Save everything learnt, and forget the operator; its queries must have ended."""
        self._closed = True
        if self._plane is not None:
            self._plane.unregister(self.identity)
            self._plane = None


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
