"""Policy: parameters kept verbatim, names, and state as bytes."""

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.policies import Policy, codec
from penstock.policies.costs import CostModel, CountMin, Exact, SpaceSaving
from penstock.policies.grouping import FullKnowledge, Grouping, KeyHash, Proactive, RoundRobin


class Counter(Policy):
    """A user's policy."""

    name = "round_robin"  # may be called like one of ours

    def __init__(self, start=0, *, step=1):
        self.start = start
        self.step = step
        self._count = np.array([start])

    def count(self):
        self._count += self.step
        return int(self._count[0])

    def _state(self):
        return {"count": self._count}


def test_params_in_the_order_of_the_constructor():
    assert Counter.parameters() == ("start", "step")
    assert Counter(3).params() == {"start": 3, "step": 1}
    assert Proactive(instances=2).params() == Proactive(2).params()
    assert "instances" in Proactive.parameters()


def test_repr_is_the_call():
    assert repr(Counter(3, step=2)) == "Counter(start=3, step=2)"
    assert repr(KeyHash(4, seed=7)) == "KeyHash(instances=4, seed=7)"
    for policy in (Proactive(3), CountMin(seed=4), SpaceSaving(7), Exact([1], [2.0])):
        names = {type(policy).__name__: type(policy), "inf": float("inf")}
        assert eval(repr(policy), names) == policy  # noqa: S307 - our own text


def test_clone_is_fresh_and_may_differ():
    policy = Counter(5)
    policy.count()
    clone = policy.clone()
    assert clone == policy
    assert clone is not policy
    assert clone.count() == 6
    assert policy.clone(step=10).count() == 15
    with pytest.raises(PenstockError, match="instances must be >= 1; got 0"):
        RoundRobin(3).clone(instances=0)


def test_equality_is_that_of_parameters():
    assert Counter(1) == Counter(1)
    assert Counter(1) != Counter(2)
    assert RoundRobin(3) != KeyHash(3)
    assert RoundRobin(3) != 3
    learnt = CountMin()
    learnt.update([1], [1.0])
    assert learnt == CountMin()
    costs = Exact(np.array([1, 2]), np.array([1.0, 2.0]))
    assert FullKnowledge(2, costs) == FullKnowledge(2, Exact([1, 2], [1.0, 2.0]))
    assert FullKnowledge(2, costs) != FullKnowledge(2, Exact([1, 2], [1.0, 3.0]))


def test_policies_are_not_hashable():
    with pytest.raises(TypeError):
        hash(RoundRobin(3))


def test_registered_by_family():
    groupings, costs = Grouping.registered(), CostModel.registered()
    assert groupings["posg"] is Proactive
    assert costs["count_min"] is CountMin
    assert not groupings.keys() & costs.keys()
    assert Policy.registered().keys() >= groupings.keys() | costs.keys()
    assert list(groupings) == sorted(groupings)


def test_a_users_class_replaces_none_of_ours():
    assert Grouping.registered()["round_robin"] is RoundRobin
    assert Counter not in Policy.registered().values()


def test_named():
    assert Policy.named("key_hash", instances=3, seed=1) == KeyHash(3, seed=1)
    assert Grouping.named("posg", instances=3, window=64) == Proactive(3, window=64)


@pytest.mark.parametrize(
    "family, name, params, message",
    [
        (Policy, "round_robbin", {}, "unknown policy 'round_robbin'; did you mean 'round_robin'?"),
        (Grouping, "pogs", {}, "unknown policy 'pogs'; did you mean 'posg'?"),
        (CostModel, "zzzz", {}, "choose one of by_call, by_size, count_min, exact"),
        (Grouping, "count_min", {}, "unknown policy 'count_min'"),
        (
            Policy,
            "posg",
            {"instances": 2, "windwo": 3},
            "unknown parameter of posg 'windwo'; did you mean 'window'?",
        ),
        (Policy, "posg", {"instances": 0}, "instances must be >= 1; got 0"),
    ],
)
def test_named_says_what_is_wrong(family, name, params, message):
    with pytest.raises(PenstockError) as caught:
        family.named(name, **params)
    assert message in str(caught.value)


def test_named_without_a_needed_parameter_says_which():
    with pytest.raises(PenstockError, match="instances"):
        Policy.named("posg")


def test_snapshot_and_restore():
    policy, other = Counter(5), Counter(5)
    policy.count()
    other.restore(policy.snapshot())
    assert other.count() == 7
    assert policy.count() == 7


def test_a_restored_policy_shares_nothing():
    policy, other = Counter(5), Counter(5)
    other.restore(policy.snapshot())
    other.count()
    assert policy.count() == 6


def test_restore_refuses_other_classes_and_shapes():
    with pytest.raises(PenstockError) as caught:
        RoundRobin(2).restore(Counter().snapshot())
    assert str(caught.value) == "snapshot is of 'Counter', expected 'RoundRobin'"
    with pytest.raises(PenstockError, match="it was taken with other parameters"):
        Proactive(2).restore(Proactive(3).snapshot())
    with pytest.raises(PenstockError, match="it was taken with other parameters"):
        Counter().restore(codec.encode("Counter", {}))


def test_a_refused_snapshot_changes_nothing():
    policy = Proactive(2)
    before = policy.snapshot()
    with pytest.raises(PenstockError):
        policy.restore(Proactive(3).snapshot())
    assert policy.snapshot() == before


def test_memory_is_that_of_the_state():
    assert Counter().memory_bytes == 8
    assert KeyHash(3).memory_bytes == 0
