"""Groupings of operators, made when the cluster is known."""

import secrets
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from penstock.errors import PenstockError
from penstock.policies.cost_learner import CostLearner
from penstock.policies.grouping import Factoring, Grouping, Proactive, ProactiveAsPublished
from penstock.policies.learner import Learner
from penstock.policies.seeds import SecretSeed
from penstock.policies.shedding import Shedder
from penstock.policies.validation import known
from penstock.spark.driver.slots import room_for_instances

Policied = TypeVar("Policied", bound=Learner)

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
    together: bool = False,
) -> Callable[[SparkSession], Grouping]:
    """Return a function that makes the grouping when the cluster is known.

    Args:
        grouping: registered name, or a grouping.
        instances: number of instances; None for one per slot.
        params: parameters of the grouping.
        sized: whether costs follow the size of records.
        servers: number of records that an instance executes at a time.
        together: whether the cost of a call with many records is measured, and no sizes are known.
    """
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
        made = measuring(grouping, sized=sized, together=together)
        return lambda _: made
    known("grouping", grouping, Grouping.registered())
    by_cost = grouping in (Proactive.name, Factoring.name)
    more: dict[str, Any] = {"capacity": _CAPACITY, "servers": servers} if by_cost else {}
    more |= params
    if issubclass(Grouping.registered()[grouping], CostLearner):
        more |= {"sized": sized, "together": together}
    more |= _secret_seed(Grouping.registered()[grouping])
    Grouping.named(grouping, instances=instances or 1, **more)
    return lambda spark: Grouping.named(
        grouping, instances=instances or room_for_instances(spark), **more
    )


def _secret_seed(kind: type[Grouping]) -> dict[str, SecretSeed]:
    """Return a seed that nobody can guess: a stranger who chooses keys must not know it.

    The sketches of POSG as published can only be merged with those of the same seed, also after a
    restart; such a grouping keeps its own seed.
    """
    if "seed" not in kind.parameters() or issubclass(kind, ProactiveAsPublished):
        return {}
    return {"seed": SecretSeed(secrets.randbits(62))}


def measuring(policy: Policied, *, sized: bool, together: bool) -> Policied:
    """Return a policy that learns costs in the way of the operator, if it learns costs.

    Args:
        policy: grouping or shedder.
        sized: whether costs follow the size of records.
        together: whether the cost of a call with many records is measured.
    """
    if not isinstance(policy, CostLearner):
        return policy
    ways = {"sized": sized or policy.sized, "together": together or policy.together}
    return policy if ways == {k: getattr(policy, k) for k in ways} else policy.clone(**ways)
