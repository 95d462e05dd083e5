"""Groupings of operators, made when the cluster is known."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from penstock.errors import PenstockError
from penstock.policies.cost_learner import CostLearner
from penstock.policies.grouping import Factoring, Grouping, Proactive
from penstock.policies.shedding import Shedder
from penstock.policies.validation import known
from penstock.spark.driver.slots import room_for_instances

# The driver has more memory than the paper's scheduler: keys with a known cost, per instance.
_CAPACITY = 1_024


def refuse_costless(grouping: str | Grouping, shedder: Shedder | None) -> None:
    """Refuse sizes for policies that do not learn costs."""
    given = Grouping.registered().get(grouping) if isinstance(grouping, str) else type(grouping)
    learns = given is not None and issubclass(given, CostLearner)
    if not learns and not isinstance(shedder, CostLearner):
        shown = grouping if isinstance(grouping, str) else type(grouping).__name__
        raise PenstockError(
            f"size needs a grouping that learns costs, such as 'factoring' or 'posg'; got {shown!r}"
        )


def grouping_maker(
    grouping: str | Grouping,
    instances: int | None,
    params: dict[str, Any],
    *,
    sized: bool,
    servers: int,
) -> Callable[[SparkSession], Grouping]:
    """Return a function that makes the grouping when the cluster is known."""
    for name, value in params.items():
        if grouping != Factoring.name:
            raise PenstockError(
                f"{name} is a parameter of the grouping 'factoring'; got {value!r} for another one"
            )
    if isinstance(grouping, Grouping):
        if instances is not None and instances != grouping.instances:
            raise PenstockError(
                f"instances must be that of the grouping ({grouping.instances}) or left out; "
                f"got {instances}"
            )
        own = grouping.servers if isinstance(grouping, Proactive) else servers
        if own != servers:
            raise PenstockError(
                f"concurrency must be the servers of the grouping ({own}); got {servers}"
            )
        learns = sized and isinstance(grouping, CostLearner) and not grouping.sized
        made = grouping.clone(sized=True) if learns else grouping
        return lambda _: made
    known("grouping", grouping, Grouping.registered())
    by_cost = grouping in (Proactive.name, Factoring.name)
    more: dict[str, Any] = {"capacity": _CAPACITY, "servers": servers} if by_cost else {}
    more |= params
    if sized and issubclass(Grouping.registered()[grouping], CostLearner):
        more["sized"] = True
    Grouping.named(grouping, instances=instances or 1, **more)
    return lambda spark: Grouping.named(
        grouping, instances=instances or room_for_instances(spark), **more
    )
