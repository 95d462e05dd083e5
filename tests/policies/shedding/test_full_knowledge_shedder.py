"""Full Knowledge: the admission fed with true costs."""

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.policies.costs import Exact
from penstock.policies.feedback import Feedback
from penstock.policies.shedding import FullKnowledge, average, each_record

COSTS = Exact(keys=[1, 2], costs_ms=[10.0, 1.0])


def test_by_hand_for_each_record():
    shedder = FullKnowledge(each_record("5 ms"), COSTS)
    assert shedder.admit([2, 1, 2, 2], [0.0, 0.0, 1.0, 8.0]).tolist() == [True, True, False, True]


def test_by_hand_for_an_average():
    shedder = FullKnowledge(average("5 ms"), COSTS)
    # Waits: 0, 10, then 20 would be too long on average, and so would 11.
    assert shedder.admit([1, 1, 1], [0.0] * 3).tolist() == [True, True, False]
    assert shedder.admit([2, 2], [9.0, 17.0]).tolist() == [False, True]


def test_it_runs_from_the_first_record_on_and_knows_the_truth():
    shedder = FullKnowledge(average(1), COSTS)
    assert shedder.state == "RUN"
    assert shedder.knows_truth
    assert not shedder.learns
    assert shedder.tracker(0) is None


def test_several_instances_share_the_work():
    shedder = FullKnowledge(each_record("5 ms"), COSTS, instances=4)
    assert shedder.admit([1] * 10, np.zeros(10)).sum() == 3  # they wait 0, 2.5 and 5 ms


def test_slowdowns_are_told():
    shedder = FullKnowledge(each_record("5 ms"), COSTS, instances=2)
    shedder.observe(Feedback(0, slowdown=3.0))
    assert shedder.expected_ms([1, 2]).tolist() == [20.0, 2.0]
    shedder.observe(Feedback(1, slowdown=3.0))
    shedder.observe(Feedback(2, slowdown=100.0))  # it has been removed
    assert shedder.expected_ms([1, 2]).tolist() == [30.0, 3.0]


def test_restart_keeps_slowdowns_and_resize_does_not():
    shedder = FullKnowledge(each_record("5 ms"), COSTS)
    shedder.observe(Feedback(0, slowdown=2.0))
    shedder.admit([1] * 5, np.zeros(5))
    shedder.restart()
    assert shedder.expected_ms([1]).tolist() == [20.0]
    assert shedder.admit([1, 1], [0.0, 0.0]).tolist() == [True, False]
    shedder.resize(3)
    assert shedder.expected_ms([1]).tolist() == [10.0]
    assert shedder.instances == 3


def test_cheap_records_first_keeps_more_of_them():
    rng = np.random.default_rng(3)
    keys, times = rng.integers(1, 3, size=4_000), np.arange(4_000) * 3.0
    any_, cheap = (FullKnowledge(average("20 ms"), COSTS, keep=p) for p in ("any", "cheap"))
    kept, more = any_.admit(keys, times), cheap.admit(keys, times)
    assert more.sum() > kept.sum()
    assert more[keys == 2].mean() > 0.99
    assert more[keys == 1].mean() < kept[keys == 1].mean()


def test_of_an_expensive_and_a_cheap_record_the_cheap_one_is_kept():
    shedder = FullKnowledge(average("10 ms"), COSTS, keep="cheap")
    shedder.admit([1, 2] * 5, np.zeros(10))
    one, other = shedder.clone(), shedder.clone()
    for each in (one, other):
        each.restore(shedder.snapshot())
    # The queue is as long for both; only their cost differs.
    assert not one.admit([1], [4.0])[0]
    assert other.admit([2], [4.0])[0]


@pytest.mark.parametrize(
    "params, message",
    [
        ({"target": 5}, "target must be made by average, sliding_average or each_record; got 5"),
        ({"keep": "chep"}, "unknown keep 'chep'; did you mean 'cheap'?"),
        ({"instances": 0}, "instances must be >= 1; got 0"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(PenstockError) as caught:
        FullKnowledge(**{"target": average(1), "costs": COSTS, **params})
    assert str(caught.value) == message
