"""State partitions of streaming queries: where they live, what they cost, what they send."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from penstock.spark.internals.jvm import as_json, java, status_store
from penstock.spark.internals.queries import execution_of

# A join of streams keeps four stores in a partition, or one with a newer format of state.
_JOIN = "StreamingSymmetricHashJoinExec"
_STORE = "default"
_JOIN_STORES = (
    _STORE,
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)
_EXCHANGE = "ShuffleExchangeExec"
# How many of the newest shuffles are looked at, and how Spark packs their sizes.
_SHUFFLES = 12
_BASE = 1.1


@dataclass(frozen=True)
class StateOperator:
    """A stateful operator of a query.

    Attributes:
        number: as Spark counts, from the sink: 0 is the last one.
        partitions: of its state.
        root: folder of the query's state, spelt as Spark does.
        depth: how many shuffles are between it and the end of the query.
        stores: names of the stores of a partition.
        shuffles: how many the query has.
    """

    number: int
    partitions: int
    root: str
    depth: int
    stores: tuple[str, ...]
    shuffles: int = 0

    def stage(self, stages: Sequence[int]) -> int | None:
        """Return its stage among those of a job that a sink may have added some to."""
        ordered = sorted(stages, reverse=True)
        place = len(ordered) - self.shuffles - 1 + self.depth
        return ordered[place] if 0 <= place < len(ordered) else None


def can_place(spark: SparkSession) -> bool:
    """Whether this Spark has the state stores that are spoken to here."""
    try:
        stores = java(spark).org.apache.spark.sql.execution.streaming.state
        store = stores.StateStoreId("", 0, 0, _STORE)
        stores.StateStoreProviderId(store, java(spark).java.util.UUID.randomUUID())
        return "reportActiveInstance" in dir(_coordinator(spark))
    except (Py4JError, TypeError):
        return False


def _coordinator(spark: SparkSession) -> Any:  # noqa: ANN401 - whatever py4j has
    session: Any = spark._jsparkSession
    return session.sessionState().streamingQueryManager().stateStoreCoordinator()


def state_operators(spark: SparkSession, query: str) -> list[StateOperator] | None:
    """Return the stateful operators of a query, the last one first; None before its first batch."""
    execution = execution_of(spark, query)
    last = execution.lastExecution() if execution is not None else None
    if last is None:
        return None
    found: dict[int, StateOperator] = {}
    shuffles = _walk(last.executedPlan(), 0, found)
    return [replace(found[number], shuffles=shuffles) for number in sorted(found)]


def _walk(node: Any, depth: int, found: dict[int, StateOperator]) -> int:  # noqa: ANN401
    """Find stateful operators from a node on, and return how many shuffles there are."""
    name = str(node.getClass().getSimpleName())
    shuffles = int(name == _EXCHANGE)
    with contextlib.suppress(Py4JError):  # most nodes have no state
        info = node.stateInfo().get()
        found[int(info.operatorId())] = StateOperator(
            int(info.operatorId()),
            int(info.numPartitions()),
            str(info.checkpointLocation()),
            depth,
            _JOIN_STORES if name == _JOIN else (_STORE,),
        )
    children = node.children()
    inner = depth + shuffles
    return shuffles + sum(_walk(children.apply(i), inner, found) for i in range(children.size()))


def hint_location(
    spark: SparkSession, run: str, operator: StateOperator, partition: int, executor: str, host: str
) -> None:
    """Let Spark prefer an executor for a state partition, when it next plans a batch."""
    jvm = java(spark)
    stores = jvm.org.apache.spark.sql.execution.streaming.state
    coordinator = _coordinator(spark)
    run_id = jvm.java.util.UUID.fromString(run)
    nobody = jvm.scala.jdk.javaapi.CollectionConverters.asScala([]).toSeq()
    for name in operator.stores:
        store = stores.StateStoreId(operator.root, operator.number, partition, name)
        provider = stores.StateStoreProviderId(store, run_id)
        coordinator.reportActiveInstance(provider, host, executor, nobody)


def tasks_of(spark: SparkSession, stage: int, most: int = 100_000) -> list[dict[str, Any]]:
    """Return what is known of the tasks of a stage that have succeeded."""
    attempt = int(status_store(spark).lastStageAttempt(stage).attemptId())
    told = as_json(spark, status_store(spark).taskList(stage, attempt, most))
    return [one for one in told if one["status"] == "SUCCESS" and one.get("taskMetrics")]


def shuffled_bytes(spark: SparkSession, maps: int, reduces: int, total: float) -> list[list[float]]:
    """Return what each map task of a recent shuffle has for each reduce task, in bytes.

    Of all shuffles of that shape the one whose total is nearest is taken; nothing if there is
    none.
    """
    jvm = java(spark)
    environment = jvm.java.lang.Class.forName("org.apache.spark.SparkEnv")
    field = environment.getDeclaredField("mapOutputTracker")
    field.setAccessible(True)
    statuses = field.get(spark.sparkContext._jsc.sc().env()).shuffleStatuses()
    numbers = [int(one) for one in str(statuses.keys().mkString(",")).split(",") if one]
    found = []
    for number in sorted(numbers, reverse=True)[:_SHUFFLES]:
        written = statuses.apply(number).mapStatuses()
        sizes = _sizes(jvm, written) if len(written) == maps else []
        if len(sizes) == maps and all(len(one) == reduces for one in sizes):
            found.append(sizes)
    return min(found, key=lambda sizes: abs(sum(map(sum, sizes)) - total), default=[])


def _sizes(jvm: Any, statuses: Any) -> list[list[float]]:  # noqa: ANN401 - whatever py4j has
    """Return sizes as Spark keeps them: 1.1 to the power of a byte, and 0 for nothing."""
    kind = jvm.java.lang.Class.forName("org.apache.spark.scheduler.CompressedMapStatus")
    field = kind.getDeclaredField("compressedSizes")
    field.setAccessible(True)
    return [
        [_BASE**packed if packed else 0.0 for packed in bytes(field.get(one))]
        for one in statuses
        if one is not None and kind.isInstance(one)
    ]


def shuffle_read_bytes(spark: SparkSession, stage: int) -> float:
    """Return how much the tasks of a stage have read from shuffles."""
    return float(status_store(spark).lastStageAttempt(stage).shuffleReadBytes())
