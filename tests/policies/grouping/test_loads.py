"""What groupings that count loads share: fading, batches, other numbers of instances, errors."""

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.policies.grouping import BoundedHash, PartialKey, RandomChoices, TwoChoices

CLASSES = [PartialKey, TwoChoices, RandomChoices, BoundedHash]
each = pytest.mark.parametrize("cls", CLASSES)


def skewed(count, seed=0):
    return np.random.default_rng(seed).zipf(1.4, size=count)


@each
def test_loads_are_the_records_sent(cls):
    grouping = cls(5, half_life=None)
    routed = grouping.route(skewed(1_000))
    np.testing.assert_array_equal(grouping.loads, np.bincount(routed, minlength=5))


@each
def test_loads_count_half_after_the_half_life(cls):
    grouping = cls(2, half_life=10)
    routed = grouping.route(skewed(20))
    np.testing.assert_array_equal(grouping.loads, np.bincount(routed, minlength=2) // 2)
    more = grouping.route(skewed(19))
    faded = np.bincount(routed, minlength=2) // 2 + np.bincount(more, minlength=2)
    np.testing.assert_array_equal(grouping.loads, faded)
    last = grouping.route(skewed(1))
    np.testing.assert_array_equal(grouping.loads, (faded + np.bincount(last, minlength=2)) // 2)


@each
def test_loads_handed_out_are_a_copy(cls):
    grouping = cls(3)
    grouping.loads[:] = 99
    assert grouping.loads.tolist() == [0, 0, 0]


@each
@pytest.mark.parametrize("router", [0, 1, 7])
def test_a_batch_begins_with_nothing_sent(cls, router):
    grouping, fresh = cls(3, half_life=50), cls(3, half_life=50)
    grouping.route(skewed(1_010))
    grouping.begin(router)
    fresh.begin(router)
    assert grouping.snapshot() == fresh.snapshot()
    np.testing.assert_array_equal(grouping.route(skewed(500)), fresh.route(skewed(500)))


@each
def test_beginning_as_the_first_router_is_being_new(cls):
    grouping = cls(3)
    grouping.route(skewed(100))
    grouping.begin(0)
    assert grouping.snapshot() == cls(3).snapshot()


@each
def test_new_instances_get_the_mean_load(cls):
    grouping = cls(2, half_life=None)
    grouping.route(skewed(100))
    before = grouping.loads
    grouping.resize(4)
    assert grouping.loads.tolist() == [*before.tolist(), 50, 50]
    # With that they are as welcome as the others: they get their share, and no flood.
    counts = np.bincount(grouping.route(np.arange(400)), minlength=4)
    assert counts.max() < 2 * counts.min() + 20


@each
def test_removed_instances_are_forgotten(cls):
    grouping = cls(4, half_life=None)
    grouping.route(skewed(200))
    before = grouping.loads
    grouping.resize(2)
    assert grouping.loads.tolist() == before[:2].tolist()
    assert grouping == cls(2, half_life=None)


@each
def test_a_resize_that_is_refused_changes_nothing(cls):
    grouping = cls(3)
    grouping.route(skewed(100))
    before = grouping.snapshot()
    with pytest.raises(PenstockError, match="instances must be >= 1; got 0"):
        grouping.resize(0)
    assert grouping.instances == 3
    assert grouping.snapshot() == before


@each
def test_snapshots_carry_on_between_two_halvings(cls):
    first, second = cls(3, half_life=20), cls(3, half_life=20)
    first.route(skewed(100))
    second.restore(first.snapshot())
    np.testing.assert_array_equal(first.route(skewed(300, 1)), second.route(skewed(300, 1)))


@each
@pytest.mark.parametrize(
    "params, message",
    [
        ({"instances": 0}, "instances must be >= 1; got 0"),
        ({"instances": 2.0}, "instances must be a whole number; got 2.0"),
        ({"half_life": 0}, "half_life must be >= 1; got 0"),
        ({"half_life": 0.5}, "half_life must be a whole number; got 0.5"),
        ({"seed": -1}, "seed must be >= 0; got -1"),
    ],
)
def test_bad_parameters_of_all(cls, params, message):
    with pytest.raises(PenstockError) as caught:
        cls(**{"instances": 2, **params})
    assert str(caught.value) == message


@pytest.mark.parametrize("cls", [RandomChoices, BoundedHash])
@pytest.mark.parametrize(
    "epsilon, message",
    [
        (0, "epsilon must be > 0; got 0"),
        (-0.1, "epsilon must be > 0; got -0.1"),
        (float("nan"), "epsilon must be finite; got nan"),
        (float("inf"), "epsilon must be finite; got inf"),
        ("1%", "epsilon must be a number; got '1%'"),
    ],
)
def test_bad_epsilon(cls, epsilon, message):
    with pytest.raises(PenstockError) as caught:
        cls(2, epsilon=epsilon)
    assert str(caught.value) == message
