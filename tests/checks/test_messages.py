"""A policy that fails a check gets one sentence that names it and its duty."""

import importlib
from dataclasses import replace

import numpy as np
import pytest

from penstock.checks import yield_checks
from penstock.checks.common import check_no_pyspark
from penstock.errors import PenstockError
from penstock.policies import Policy
from penstock.policies.costs import SpaceSaving
from penstock.policies.grouping import Grouping
from penstock.policies.placement import Placer
from penstock.policies.scaling import Scaler
from penstock.policies.shedding import Shedder


def failures(policy):
    """Messages of the checks that a policy fails, by the name of the check."""
    found = {}
    for name, check in yield_checks(policy):
        try:
            check()
        except (AssertionError, PenstockError) as error:
            found[name] = str(error)
    return found


class Stays(Placer):
    """Never moves a key group."""

    def place(self, cluster):
        return cluster.placement, ""


class Wanders(Placer):
    """Moves every key group to the next worker that stays, again and again."""

    def place(self, cluster):
        live = np.flatnonzero(cluster.live)
        after = np.searchsorted(live, cluster.placement, side="right") % live.size
        return live[after], ""


class Embellishes(Stays):
    """Claims to be better than it is."""

    def plan(self, cluster):
        return replace(super().plan(cluster), distance_after=-1.0)


def test_a_placer_that_does_not_drain():
    found = failures(Stays())
    assert set(found) == {"removed", "drains_without_load"}
    assert "Stays must empty workers marked for removal;" in found["removed"]
    assert "key groups are still there when it moves nothing any more" in found["removed"]
    assert "Stays must empty workers marked for removal also if" in found["drains_without_load"]


def test_a_placer_that_does_not_come_to_rest():
    found = failures(Wanders())
    assert found["comes_to_rest"] == (
        "Wanders must come to rest if loads do not change; after 120 plans it still moves key "
        "groups, in the last five plans [60, 60, 60, 60, 60]"
    )
    assert found["balanced"].startswith("Wanders must leave a balanced cluster as it is; it moves")


def test_a_placer_with_a_wrong_distance():
    found = failures(Embellishes())
    assert found["distances"].startswith("the plan of Embellishes must have distance_after =")
    assert found["distances"].endswith("its placement's; got -1")


class Outside(Grouping):
    """Routes to an instance too many."""

    def route(self, keys, now_ms=None):
        return np.asarray(np.abs(keys) % (self.instances + 1), dtype=np.int32)


class Flickers(Grouping):
    """Decides in another way every time."""

    rng = np.random.default_rng(0)

    def route(self, keys, now_ms=None):
        return self.rng.integers(0, self.instances, np.size(keys)).astype(np.int32)


class Scribbles(Grouping):
    """Changes the keys."""

    def route(self, keys, now_ms=None):
        keys %= self.instances
        return keys.astype(np.int32)


class Breaks(Grouping):
    """Raises an error of Python's."""

    def route(self, keys, now_ms=None):
        raise KeyError("no such key")


class OneHome(Outside):
    """Declares less than it does."""

    fan_out = 1

    def route(self, keys, now_ms=None):
        return np.arange(np.size(keys), dtype=np.int32) % self.instances


def test_a_grouping_outside_of_its_instances():
    found = failures(Outside(5))
    assert found["range"] == "Outside.route must return instances from 0 to 4; got 0 to 5"


def test_a_grouping_that_is_not_repeatable():
    found = failures(Flickers(5))
    duty = "Flickers must route the same records in the same way every time; value "
    assert found["same_decisions"].startswith(duty)
    assert "instead of" in found["same_decisions"]


def test_a_grouping_that_changes_its_inputs():
    assert failures(Scribbles(5))["inputs_kept"].startswith(
        "Scribbles.route must accept read-only arrays and not change them; it raised"
    )


def test_a_grouping_that_raises_another_error():
    assert failures(Breaks(5))["range"] == (
        "Breaks must pass the check 'range' without an error; it raised KeyError: 'no such key'"
    )


def test_a_grouping_with_a_wrong_fan_out():
    assert failures(OneHome(5))["fan_out"] == (
        "OneHome must send the records of a key to at most fan_out = 1 instances; "
        "one key has records on 5"
    )


class Hasty(Shedder):
    """Sheds every odd key, protected or not."""

    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        return np.asarray(keys) % 4 == 1


class Counts(Shedder):
    """Returns numbers."""

    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        return np.ones(np.size(keys))


def test_a_shedder_that_sheds_without_need():
    found = failures(Hasty())
    assert found["slack"].startswith("Hasty must not shed if every record is done before the next")
    assert found["protected"].startswith("Hasty.admit must admit every protected record; it shed")


def test_a_shedder_that_does_not_return_bool():
    assert failures(Counts())["every_record"] == (
        "Counts.admit must return a bool array with True or False for each of 4000 records; "
        "got dtype float64 and shape (4000,)"
    )


class Flaps(Scaler):
    """Never comes to rest."""

    def wanted(self, topology, history):
        return dict.fromkeys(topology.parents, (1 + history.periods % 3, "for a change"))


class Beyond(Flaps):
    """Does not know its limits."""

    def plan(self, topology, history):
        plan = super().plan(topology, history)
        return replace(plan, degrees=dict.fromkeys(plan.degrees, 99))


def test_a_scaler_that_does_not_come_to_rest():
    found = failures(Flaps())
    assert set(found) == {"constant_load"}
    assert found["constant_load"].startswith("Flaps must come to rest under a constant load; its")


def test_a_scaler_beyond_its_limits():
    found = failures(Beyond())
    assert found["limits"] == "Beyond must plan degrees from 1 to 8; got 99 for 'first'"
    assert found["nothing_seen"] == found["limits"]


class Optimist(SpaceSaving):
    """Estimates that nothing costs anything."""

    def estimate(self, keys):
        return np.zeros(np.size(keys))


class Hoards(SpaceSaving):
    """Takes more memory with every update."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.updates = 0

    def update(self, keys, costs_ms):
        super().update(keys, costs_ms)
        self.updates += 1

    @property
    def memory_bytes(self):
        return super().memory_bytes + self.updates

    @classmethod
    def parameters(cls):
        return SpaceSaving.parameters()


def test_a_cost_model_out_of_range():
    assert failures(Optimist())["estimates_in_range"].startswith(
        "Optimist.estimate must return costs between the smallest and the largest one seen, "
    )


def test_a_cost_model_that_grows():
    found = failures(Hoards())
    assert set(found) == {"model_memory"}
    assert found["model_memory"].startswith(
        "the memory of Hoards must not grow with the stream; it went from "
    )


class Forgets(Policy):
    """Does not keep its argument."""

    def __init__(self, size=1):
        self.length = size


def test_any_policy_that_does_not_keep_its_arguments():
    message = (
        "Forgets must keep every constructor argument in an attribute of the same name; "
        "size missing"
    )
    found = failures(Forgets())
    assert found["clone"] == found["repr"] == message


@pytest.mark.parametrize(
    "policy",
    [
        Stays(),
        Wanders(),
        Embellishes(),
        Outside(5),
        Flickers(5),
        Scribbles(5),
        Breaks(5),
        OneHome(5),
        Hasty(),
        Counts(),
        Flaps(),
        Beyond(),
        Optimist(),
        Hoards(),
        Forgets(),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_every_message_names_the_policy_and_its_duty(policy):
    found = failures(policy)
    assert found
    for message in found.values():
        assert type(policy).__name__ in message
        assert " must " in message


def test_a_policy_that_imports_spark(tmp_path, monkeypatch):
    source = "import pyspark\nfrom test_messages import Stays\nclass Sparking(Stays):\n    pass\n"
    (tmp_path / "sparking.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    policy = importlib.import_module("sparking").Sparking()
    with pytest.raises(AssertionError, match="sparking must not import pyspark; policies run"):
        check_no_pyspark(policy)
