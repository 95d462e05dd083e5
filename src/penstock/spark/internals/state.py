"""State partitions of streaming queries: where they live, what they cost, what they send."""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from penstock.spark.internals.jobs import stages_as_planned
from penstock.spark.internals.jvm import JvmError, as_json, java, status_store
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
_BROADCAST = "BroadcastExchangeExec"
# By how much the sizes of a shuffle may differ from what its tasks have told: they are packed.
_FITS = 0.25
# How many of the newest shuffles are looked at, and how Spark packs their sizes.
_SHUFFLES = 24
_BASE = 1.1


@dataclass(frozen=True)
class StateOperator:
    """A stateful operator of a query.

    Attributes:
        number: as Spark counts, from the sink: 0 is the last one.
        partitions: of its state.
        root: folder of the query's state, spelt as Spark does.
        stores: names of the stores of a partition.
        place: of its stage among those of the query, in the order of `stages_as_planned`.
        receiver: number of the operator that gets what it sends, by one shuffle; None if nobody.
        before: operators that come before it in the same stage: they live where it does.
    """

    number: int
    partitions: int
    root: str
    stores: tuple[str, ...]
    place: int = 0
    receiver: int | None = None
    before: tuple["StateOperator", ...] = ()

    def stage(self, stages: Sequence[int]) -> int | None:
        """Return its stage among those of a job, in the order in which Spark planned them.

        A sink may have added some at the end.
        """
        return stages[self.place] if self.place < len(stages) else None


def can_place(spark: SparkSession) -> bool:
    """Whether this Spark has the state stores that are spoken to here."""
    try:
        stores = java(spark).org.apache.spark.sql.execution.streaming.state
        store = stores.StateStoreId("", 0, 0, _STORE)
        stores.StateStoreProviderId(store, java(spark).java.util.UUID.randomUUID())
        return "reportActiveInstance" in dir(_coordinator(spark))
    except (JvmError, TypeError):
        return False


def _coordinator(spark: SparkSession) -> Any:  # noqa: ANN401 - a py4j object
    session: Any = spark._jsparkSession
    return session.sessionState().streamingQueryManager().stateStoreCoordinator()


def state_operators(spark: SparkSession, query: str) -> list[StateOperator] | None:
    """Return the stateful operators of a query, the last one first; None before its first batch.

    Of those that share a stage it is the last one: it has the others with it.
    """
    execution = execution_of(spark, query)
    last = execution.lastExecution() if execution is not None else None
    if last is None:
        return None
    found: dict[int, StateOperator] = {}
    _read_stage(last.executedPlan(), None, 0, found)
    return [found[number] for number in sorted(found)]


def _read_stage(
    top: Any,  # noqa: ANN401 - a py4j object
    receiver: int | None,
    before: int,
    found: dict[int, StateOperator],
) -> int:
    """Find the stateful operators of a stage and of those that it reads.

    Args:
        top: the last node of the stage.
        receiver: the operator that reads what the stage sends.
        before: how many stages are planned before it.
        found: where operators are added, by number.

    Returns:
        How many stages are planned now: Spark plans what a stage reads, and then the stage itself.
    """
    own: dict[int, StateOperator] = {}
    place = before
    waiting: list[tuple[Any, int | None]] = [(top, None)]
    while waiting:
        node, reader = waiting.pop()
        name, children = str(node.getClass().getSimpleName()), _children(node)
        if name == _EXCHANGE:
            place = _read_stage(children[0], reader, place, found)
        if name in (_EXCHANGE, _BROADCAST):
            continue  # what is broadcast is made by a job of its own
        operator = _operator(node, receiver if reader is None else None)
        if operator is not None:
            # An aggregation has two nodes, which restore and save the same state.
            own.setdefault(operator.number, operator)
            reader = operator.number if reader is None else reader
        waiting += [(child, reader) for child in reversed(children)]
    if own:
        last, *others = own.values()
        found[last.number] = replace(last, place=place, before=tuple(others))
    return place + 1


def _children(node: Any) -> list[Any]:  # noqa: ANN401 - a py4j object
    """Return what a node reads, in the order in which Spark plans it."""
    found = [node.children().apply(i) for i in range(node.children().size())]
    if len(found) > 1:
        with contextlib.suppress(JvmError):  # a join with a table begins with what it streams
            streamed = node.streamedPlan()
            found.sort(key=lambda child: not child.equals(streamed))
    return found


def _operator(node: Any, receiver: int | None) -> StateOperator | None:  # noqa: ANN401
    """Return the stateful operator that a node is; most are none."""
    with contextlib.suppress(JvmError):
        info = node.stateInfo().get()
        joins = str(node.getClass().getSimpleName()) == _JOIN
        return StateOperator(
            number=int(info.operatorId()),
            partitions=int(info.numPartitions()),
            root=str(info.checkpointLocation()),
            stores=_JOIN_STORES if joins else (_STORE,),
            receiver=receiver,
        )
    return None


def hint_location(
    spark: SparkSession,
    run: str,
    operator: StateOperator,
    *,
    partition: int,
    executor: str,
    host: str,
) -> None:
    """Let Spark prefer an executor for a state partition in the next batch that it plans.

    Args:
        spark: session of the query.
        run: identity of the query's run.
        operator: stateful operator.
        partition: partition of its state.
        executor: name of the executor.
        host: host of the executor.
    """
    jvm = java(spark)
    stores = jvm.org.apache.spark.sql.execution.streaming.state
    coordinator = _coordinator(spark)
    run_id = jvm.java.util.UUID.fromString(run)
    nobody = jvm.scala.jdk.javaapi.CollectionConverters.asScala([]).toSeq()
    for one in (operator, *operator.before):
        for name in one.stores:
            store = stores.StateStoreId(one.root, one.number, partition, name)
            provider = stores.StateStoreProviderId(store, run_id)
            coordinator.reportActiveInstance(provider, host, executor, nobody)


def tasks_of(spark: SparkSession, stage: int, most: int = 100_000) -> list[dict[str, Any]]:
    """Return what is known of the tasks of a stage that have succeeded."""
    attempt = int(status_store(spark).lastStageAttempt(stage).attemptId())
    told = as_json(spark, status_store(spark).taskList(stage, attempt, most))
    return [one for one in told if one["status"] == "SUCCESS" and one.get("taskMetrics")]


def tasks_by_operator(
    spark: SparkSession, operators: Iterable[StateOperator], stages: Iterable[int]
) -> dict[int, list[dict[str, Any]]]:
    """Return the tasks of each operator, by its number, in the stages of a job."""
    planned = stages_as_planned(spark, stages)
    found = {one.number: one.stage(planned) for one in operators}
    return {n: [] if at is None else tasks_of(spark, at) for n, at in found.items()}


def shuffled_bytes(
    spark: SparkSession, written: Sequence[float], read: Sequence[float]
) -> list[list[float]]:
    """Return what each map task of a recent shuffle has for each reduce task, in bytes.

    Of all shuffles of that shape the one is taken that fits best; nothing if none fits.

    Args:
        spark: the session.
        written: bytes that each map task has written.
        read: bytes that each reduce task has read, of other shuffles, too, if it joins.
    """
    jvm = java(spark)
    environment = jvm.java.lang.Class.forName("org.apache.spark.SparkEnv")
    field = environment.getDeclaredField("mapOutputTracker")
    field.setAccessible(True)
    statuses = field.get(spark.sparkContext._jsc.sc().env()).shuffleStatuses()
    numbers = [int(one) for one in str(statuses.keys().mkString(",")).split(",") if one]
    found = []
    for number in sorted(numbers, reverse=True)[:_SHUFFLES]:
        status = statuses.get(number)
        if status.isEmpty():
            continue  # Spark has just cleaned it up
        statuses_of = status.get().mapStatuses()
        sizes = _sizes(jvm, statuses_of) if len(statuses_of) == len(written) else []
        if len(sizes) == len(written) and all(len(one) == len(read) for one in sizes):
            found.append(sizes)
    return best_fit(found, written, read)


def best_fit(
    shuffles: list[list[list[float]]], written: Sequence[float], read: Sequence[float]
) -> list[list[float]]:
    """Return the shuffle whose sums of rows and columns are nearest to what tasks have told.

    The total is not enough: operators that pass their records on all send nearly the same. Nothing
    is returned if not even rows fit.

    Example:
        >>> alike = [[[9.0, 1], [1, 9]], [[5.0, 5], [9, 1]]]
        >>> best_fit(alike, written=[10, 10], read=[14, 6])
        [[5.0, 5], [9, 1]]
        >>> best_fit(alike, written=[20, 0], read=[10, 10])
        []
    """

    def off(sums: Iterable[float], told: Sequence[float]) -> float:
        return sum(abs(size - one) for size, one in zip(sums, told, strict=True))

    def misfit(sizes: list[list[float]]) -> float:
        return off(map(sum, sizes), written) + off(map(sum, zip(*sizes, strict=True)), read)

    best = min(shuffles, key=misfit, default=[])
    fits = best and off(map(sum, best), written) <= _FITS * sum(written)
    return best if fits else []


def _sizes(jvm: Any, statuses: Any) -> list[list[float]]:  # noqa: ANN401 - a py4j object
    """Return sizes as Spark keeps them: 1.1 to the power of a byte, and 0 for nothing."""
    kind = jvm.java.lang.Class.forName("org.apache.spark.scheduler.CompressedMapStatus")
    field = kind.getDeclaredField("compressedSizes")
    field.setAccessible(True)
    return [
        [_BASE**packed if packed else 0.0 for packed in bytes(field.get(one))]
        for one in statuses
        if one is not None and kind.isInstance(one)
    ]
