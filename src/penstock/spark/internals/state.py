"""Stateful operators of streaming queries: found in the plan, and placed by hints."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from penstock.spark.internals.jvm import JvmError, java
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


@dataclass(frozen=True)
class StateOperator:
    """A stateful operator of a query.

    Attributes:
        number: number of the operator; Spark counts from the sink, so 0 is the last one.
        partitions: number of partitions of its state.
        root: folder of the query's state, as Spark spells it.
        stores: names of the stores of a partition.
        stage_rank: rank of its stage among those of the query, in the order of
            `stages_as_planned`.
        receiver: number of the operator that reads its output through one shuffle; None if there
            is none.
        before: earlier operators of the same stage; they live on the same executor.
    """

    number: int
    partitions: int
    root: str
    stores: tuple[str, ...]
    stage_rank: int = 0
    receiver: int | None = None
    before: tuple["StateOperator", ...] = ()

    def stage(self, stages: Sequence[int]) -> int | None:
        """Return its stage among the planned stages of a job; a sink may have added more."""
        return stages[self.stage_rank] if self.stage_rank < len(stages) else None


def can_place(spark: SparkSession) -> bool:
    """Whether this version of Spark has the state stores that are used here."""
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

    Operators that share a stage are returned as one: the last of them, with the others in `before`.
    """
    execution = execution_of(spark, query)
    last = execution.lastExecution() if execution is not None else None
    if last is None:
        return None
    found: dict[int, StateOperator] = {}
    _read_stage(last.executedPlan(), receiver=None, rank=0, found=found)
    return [found[number] for number in sorted(found)]


def _read_stage(
    top: Any,  # noqa: ANN401 - a py4j object
    *,
    receiver: int | None,
    rank: int,
    found: dict[int, StateOperator],
) -> int:
    """Find the stateful operators of a stage and of the stages that it reads.

    Args:
        top: last node of the stage.
        receiver: number of the operator that reads the output of the stage.
        rank: number of stages that are planned before it.
        found: operators found so far, by number; new ones are added.

    Returns:
        Number of stages planned so far: Spark plans the inputs of a stage, then the stage itself.
    """
    own: dict[int, StateOperator] = {}
    waiting: list[tuple[Any, int | None]] = [(top, None)]
    while waiting:
        node, reader = waiting.pop()
        name, children = str(node.getClass().getSimpleName()), _children(node)
        if name == _EXCHANGE:
            rank = _read_stage(children[0], receiver=reader, rank=rank, found=found)
        if name in (_EXCHANGE, _BROADCAST):
            continue  # a broadcast table is made by a job of its own
        operator = _operator(node, receiver if reader is None else None)
        if operator is not None:
            # An aggregation has two nodes, which restore and save the same state.
            own.setdefault(operator.number, operator)
            reader = operator.number if reader is None else reader
        waiting += [(child, reader) for child in reversed(children)]
    if own:
        last, *others = own.values()
        found[last.number] = replace(last, stage_rank=rank, before=tuple(others))
    return rank + 1


def _children(node: Any) -> list[Any]:  # noqa: ANN401 - a py4j object
    """Return the inputs of a node, in the order in which Spark plans them."""
    found = [node.children().apply(i) for i in range(node.children().size())]
    if len(found) > 1:
        with contextlib.suppress(JvmError):  # a join with a table begins with the stream
            streamed = node.streamedPlan()
            found.sort(key=lambda child: not child.equals(streamed))
    return found


def _operator(node: Any, receiver: int | None) -> StateOperator | None:  # noqa: ANN401
    """Return a node as a stateful operator; None if it has no state."""
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
    no_providers = jvm.scala.jdk.javaapi.CollectionConverters.asScala([]).toSeq()
    for one in (operator, *operator.before):
        for name in one.stores:
            store = stores.StateStoreId(one.root, one.number, partition, name)
            provider = stores.StateStoreProviderId(store, run_id)
            coordinator.reportActiveInstance(provider, host, executor, no_providers)
