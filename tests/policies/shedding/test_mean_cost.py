"""Straw-Man: the mean for every record, given or learnt from batches."""

import math

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.policies.feedback import Feedback
from penstock.policies.shedding import MeanCost, average, each_record


def test_by_hand_for_each_record():
    shedder = MeanCost(each_record("5 ms"), mean_cost_ms=4.0)
    assert shedder.admit([1, 2, 3, 4], [0.0, 0.0, 0.0, 6.0]).tolist() == [True, True, False, True]


def test_by_hand_for_an_average():
    shedder = MeanCost(average("4 ms"), mean_cost_ms=4.0)
    # Waits of 0, 4 and 8 are 4 ms on average.
    assert shedder.admit([1, 2, 3, 4], [0.0] * 4).tolist() == [True, True, True, False]


def test_every_key_costs_the_same():
    assert MeanCost(average(1), 2.5).expected_ms([1, 2, -7]).tolist() == [2.5] * 3


def test_several_instances_share_the_work():
    shedder = MeanCost(each_record("5 ms"), mean_cost_ms=4.0, instances=2)
    assert shedder.admit([1] * 9, np.zeros(9)).sum() == 3  # they wait 0, 2 and 4 ms


def test_nothing_is_shed_until_the_mean_is_known():
    shedder = MeanCost(each_record("5 ms"))
    assert shedder.learns
    assert shedder.state == "NOP"
    assert not shedder.running
    assert shedder.admit([1] * 100, np.zeros(100)).all()
    shedder.observe(Feedback(0, records=10, busy_ms=20.0))
    assert shedder.state == "RUN"
    assert shedder.running
    shedder.begin(0.0)
    assert shedder.admit([1] * 100, np.zeros(100)).sum() == 3


def test_the_mean_is_learnt_from_how_long_batches_take():
    shedder = MeanCost(average(1))
    means = []
    for busy_ms, records in ((50.0, 10), (100.0, 10), (70.0, 7)):
        shedder.observe(Feedback(0, records=records, busy_ms=busy_ms))
        means.append(float(shedder.expected_ms([1])[0]))
    # Time and records of the batches before count 0.7 times as much with every batch.
    second = (0.7 * 50 + 100) / (0.7 * 10 + 10)
    third = (0.49 * 50 + 0.7 * 100 + 70) / (0.49 * 10 + 0.7 * 10 + 7)
    assert means == pytest.approx([5.0, second, third])


def test_a_tiny_batch_says_little():
    shedder = MeanCost(average("2 s"))
    shedder.observe(Feedback(0, records=1_000, busy_ms=1_000.0))
    shedder.observe(Feedback(0, records=1, busy_ms=500.0))  # mostly what Spark takes for a batch
    assert shedder.expected_ms([1])[0] < 2


def test_a_batch_keeps_all_instances_busy():
    shedder = MeanCost(average(1), instances=4)
    shedder.observe(Feedback(0, records=10, busy_ms=50.0))
    assert shedder.expected_ms([1]).tolist() == [20.0]


@pytest.mark.parametrize(
    "feedback",
    [
        Feedback(0, records=0, busy_ms=50.0),
        Feedback(0, records=10, busy_ms=0.0),
        Feedback(0, records=10),
        Feedback(1, records=10, busy_ms=50.0),
    ],
)
def test_a_batch_without_records_or_time_teaches_nothing(feedback):
    shedder = MeanCost(average(1))
    shedder.observe(feedback)
    assert shedder.state == "NOP"
    assert not shedder.running


def test_a_mean_that_was_given_stays():
    shedder = MeanCost(average(1), mean_cost_ms=4.0)
    assert not shedder.learns
    shedder.observe(Feedback(0, records=10, busy_ms=1e6))
    assert shedder.expected_ms([1]).tolist() == [4.0]
    assert shedder.state == "RUN"
    assert shedder.running


def test_restart_and_resize_keep_the_mean():
    shedder = MeanCost(each_record("5 ms"))
    shedder.observe(Feedback(0, records=10, busy_ms=50.0))
    shedder.admit([1] * 10, np.zeros(10))
    shedder.restart()
    shedder.resize(3)
    assert (shedder.state, shedder.instances) == ("RUN", 3)
    assert shedder.expected_ms([1]).tolist() == [5.0]
    assert shedder.admit([1] * 10, np.zeros(10)).sum() == 4


def test_what_was_learnt_survives_in_a_snapshot():
    shedder = MeanCost(average(1))
    shedder.observe(Feedback(0, records=10, busy_ms=50.0))
    other = shedder.clone()
    assert other.state == "NOP"
    assert not other.running
    other.restore(shedder.snapshot())
    assert other.expected_ms([1]).tolist() == [5.0]


@pytest.mark.parametrize(
    "params, message",
    [
        ({"target": "5 ms"}, "target must be made by average, sliding_average or each_record"),
        ({"mean_cost_ms": 0.0}, "mean_cost_ms must be > 0; got 0"),
        ({"mean_cost_ms": -1}, "mean_cost_ms must be > 0; got -1"),
        ({"mean_cost_ms": math.nan}, "mean_cost_ms must be finite; got nan"),
        ({"instances": 0}, "instances must be >= 1; got 0"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(PenstockError) as caught:
        MeanCost(**{"target": average(1), **params})
    assert str(caught.value).startswith(message)


def test_the_lag_alone_never_makes_it_shed():
    shedder = MeanCost(each_record("10 ms"), mean_cost_ms=1.0)
    for _ in range(50):  # every record waits for a second longer than planned
        shedder.observe(Feedback(0, waited_ms=101_000.0, records=100, planned_ms=1_000.0))
    shedder.begin(0.0)
    assert shedder.admit_together([1, 2], [0.0, 0.0], [0.0, 0.0]).tolist() == [True, True]
    # Half of the target for the first record, and the cost of one record more for the second.
    assert shedder.planned_ms == 5.0 + 6.0
