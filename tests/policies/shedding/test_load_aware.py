"""LAS: what it learns, when it begins to shed, and how answers set it right."""

import math

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.policies.costs import CountMin, SpaceSaving
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import RoundRobin
from penstock.policies.shedding import (
    LoadAware,
    LoadAwareAsPublished,
    average,
    each_record,
    sliding_average,
)
from penstock.sim import Synthetic, simulate

NOBODY = np.zeros(0, dtype=np.bool_)


def measured(costs):
    """A table of these costs by key."""
    table = SpaceSaving(capacity=16)
    table.update(list(costs), list(costs.values()))
    return table


def knowing(costs, **params):
    """A shedder that has learnt these costs, at the beginning of a stream."""
    shedder = LoadAware(**{"target": each_record("5 ms"), **params})
    for instance in range(shedder.instances):
        shedder.observe(Feedback(instance, measured(costs)))
    shedder.restart()
    return shedder


def step(shedder, keys, now):
    """Decide up to an answer, about records that arrive now."""
    times = np.broadcast_to(float(now), len(keys)).copy()
    return shedder.admit_until_answer(np.array(keys), times, times, NOBODY)


def test_costs_are_learnt_per_key_and_the_rest_costs_the_mean():
    shedder = knowing({1: 10.0, 2: 1.0})
    np.testing.assert_allclose(shedder.expected_ms([1, 2, 3]), [10.0, 1.0, 5.5])


def test_by_hand_for_each_record():
    shedder = knowing({1: 10.0, 2: 1.0})
    # The second one waits 1 ms, and is done at 11.
    assert shedder.admit([2, 1, 2, 2], [0.0, 0.0, 1.0, 8.0]).tolist() == [True, True, False, True]
    assert shedder.planned_ms == 1.0 + 3.0


def test_by_hand_for_an_average():
    shedder = knowing({1: 10.0}, target=average("5 ms"))
    # Waits of 0 and 10 leave no room: the third would wait 20.
    assert shedder.admit([1] * 3, [0.0] * 3).tolist() == [True, True, False]
    # At 20 nothing waits, which makes room for 10 more.
    assert shedder.admit([1] * 3, [20.0] * 3).tolist() == [True, True, False]


def test_by_hand_for_two_instances():
    shedder = knowing({1: 10.0}, instances=2)
    assert shedder.admit([1] * 4, [0.0] * 4).tolist() == [True, True, False, False]


def test_it_has_been_waiting_since_it_arrived():
    shedder = knowing({1: 1.0})
    assert shedder.admit([1, 1], [0.0, 2.0], now_ms=[6.0, 6.0]).tolist() == [False, True]


@pytest.mark.parametrize("target", [average(1), sliding_average(1, 8), each_record(1)])
def test_nothing_is_shed_before_it_has_learnt(target):
    shedder = LoadAware(target)
    assert shedder.state == "NOP"
    assert not shedder.running
    assert shedder.admit([1] * 500, np.zeros(500)).all()
    assert shedder.admit([1] * 500, np.zeros(500), np.full(500, 1e6)).all()
    assert shedder.planned_ms == 0


@pytest.mark.parametrize("instances", [1, 3])
def test_it_runs_from_the_first_answer_on(instances):
    shedder = LoadAware(average(1), instances=instances)
    assert shedder.state == "NOP"
    assert not shedder.running
    shedder.observe(Feedback(instances - 1, measured({1: 2.0})))
    assert shedder.state == "RUN"
    assert shedder.running


def test_it_runs_when_every_instance_has_answered():
    assert knowing({1: 2.0}, instances=3).state == "RUN"


def test_an_empty_message_teaches_nothing():
    shedder = LoadAware(average(1))
    shedder.observe(Feedback(0, SpaceSaving(capacity=16)))
    assert shedder.state == "NOP"
    assert not shedder.running


def test_windows_double_until_they_are_as_long_as_the_window():
    shedder = LoadAware(average(1e6), window=10, first_window=2)
    keys, times = np.ones(200, dtype=np.int64), np.zeros(200)
    sizes, at = [], 0
    while at < 42:
        found = shedder.admit_until_answer(keys[at:], times[at:], times[at:], NOBODY)
        assert found.answerable
        sizes.append(found.mask.size)
        at += found.mask.size
    assert sizes == [2, 4, 8, 10, 10, 10]


def test_the_first_window_is_never_longer_than_the_window():
    found = step(LoadAware(average(1), window=3, first_window=16), [1] * 10, 0)
    assert found.mask.size == 3


def test_requests_count_admitted_records_and_tell_when_they_will_be_done():
    shedder = knowing({1: 10.0}, window=1, first_window=1)
    first = step(shedder, [1, 1], 0.0)
    assert first.mask.tolist() == [True]
    assert (first.request.epoch, first.request.estimate_ms) == (0, 10.0)
    second = step(shedder, [1, 1, 1], 2.0)  # all would wait 8 ms
    assert second.mask.tolist() == [False] * 3
    assert not second.answerable
    assert second.request is None
    third = step(shedder, [1], 6.0)
    assert (third.request.epoch, third.request.estimate_ms) == (1, 20.0)


def test_an_answer_sets_the_clock_right():
    shedder = knowing({1: 10.0}, window=1, first_window=1)
    request = step(shedder, [1], 0.0).request
    shedder.observe(Feedback(0, epoch=request.epoch, delta_ms=10.0))  # done at 20
    assert shedder.admit([1, 1], [14.0, 16.0]).tolist() == [False, True]


def test_what_came_after_the_request_is_replayed():
    shedder = knowing({1: 10.0}, target=average(1_000), window=1, first_window=1)
    request = step(shedder, [1], 0.0).request
    shedder.admit([1, 1], [0.0, 50.0])  # planned for 10 to 20 and 50 to 60
    shedder.observe(Feedback(0, epoch=request.epoch, delta_ms=20.0))  # 30 to 40, and as before
    later = step(shedder, [1], 55.0).request
    assert later.estimate_ms + 20.0 == 70.0  # what has been set right is not in requests


def test_messages_of_removed_instances_are_dropped():
    shedder = LoadAware(average(1))
    shedder.observe(Feedback(1, measured({1: 2.0})))
    assert shedder.state == "NOP"
    assert not shedder.running


def test_costs_of_another_kind_are_refused():
    with pytest.raises(PenstockError, match="costs must be SpaceSaving; got CountMin"):
        LoadAware(average(1)).observe(Feedback(0, CountMin(epsilon=0.05)))


def test_restart_keeps_costs_and_forgets_the_queue():
    shedder = knowing({1: 10.0})
    assert shedder.admit([1, 1, 1], [0.0] * 3).tolist() == [True, False, False]
    shedder.restart()
    assert shedder.state == "RUN"
    assert shedder.running
    assert shedder.expected_ms([1]).tolist() == [10.0]
    assert shedder.admit([1, 1], [0.0] * 2).tolist() == [True, False]


@pytest.mark.parametrize("instances", [1, 2, 5])
def test_resize_keeps_costs(instances):
    shedder = knowing({1: 10.0, 2: 1.0}, instances=3)
    shedder.resize(instances)
    assert (shedder.instances, shedder.state) == (instances, "RUN")
    np.testing.assert_allclose(shedder.expected_ms([1, 2]), [10.0, 1.0])
    # One batch of ten: each instance takes its part of the work.
    assert shedder.admit([1] * 10, np.zeros(10)).sum() == math.floor(5 * instances / 10) + 1


def test_expected_totals_are_those_of_the_table():
    shedder = knowing({1: 10.0, 2: 1.0})
    assert shedder.expected_total_ms(Feedback(0, measured({1: 3.0, 2: 3.0}))) == pytest.approx(11.0)
    assert shedder.expected_total_ms(Feedback(0)) == 0


# Micro-batches: the engine tells how long records have waited.


def test_a_share_of_the_capacity_makes_the_clock_run_faster():
    shedder = knowing({1: 1.0}, instances=2)
    shedder.begin(0.0, share=0.25)  # half an instance
    assert shedder.admit([1] * 10, np.zeros(10)).sum() == 3
    shedder.begin(100.0, share=1.0)
    assert shedder.admit([1] * 20, np.full(20, 100.0)).sum() == 11


def test_a_batch_that_was_late_is_begun_later_the_next_time():
    shedder = knowing({1: 1.0})
    shedder.begin(0.0)
    shedder.observe(Feedback(0, waited_ms=4_750.0, records=950, planned_ms=950.0))  # 4 ms late each
    shedder.begin(1_000.0)
    # Nearly half of that is expected again: it starts at 1001.9.
    assert shedder.admit([1] * 9, np.full(9, 1_000.0)).sum() == 4
    shedder.observe(Feedback(0, waited_ms=950.0, records=950, planned_ms=8_550.0))
    shedder.begin(2_000.0)
    assert shedder.admit([1] * 9, np.full(9, 2_000.0)).sum() == 6


def test_what_has_waited_longer_leaves_less_room():
    early, late = (knowing({1: 1.0}, target=average(5)) for _ in range(2))
    early.observe(Feedback(0, waited_ms=10.0, records=10, planned_ms=10.0))
    late.observe(Feedback(0, waited_ms=50.0, records=10, planned_ms=50.0))
    kept = [shedder.admit([1] * 50, np.zeros(50)).sum() for shedder in (early, late)]
    assert kept[0] > kept[1] == 11


def test_what_was_not_planned_is_not_counted():
    shedder = knowing({1: 1.0}, target=average(5))
    shedder.observe(Feedback(0, waited_ms=1e6, records=10))
    assert shedder.admit([1] * 50, np.zeros(50)).sum() == 11


# Bad input.


@pytest.mark.parametrize("cls", [LoadAware, LoadAwareAsPublished])
@pytest.mark.parametrize("wrong", [5, "5 ms", None])
def test_a_target_must_be_one(cls, wrong):
    with pytest.raises(PenstockError) as caught:
        cls(wrong)
    assert str(caught.value) == (
        f"target must be made by average, sliding_average or each_record; got {wrong!r}"
    )


@pytest.mark.parametrize(
    "params, message",
    [
        ({"keep": "chep"}, "unknown keep 'chep'; did you mean 'cheap'?"),
        ({"keep": "best"}, "unknown keep 'best'"),
        ({"instances": 0}, "instances must be >= 1; got 0"),
        ({"window": 0}, "window must be >= 1; got 0"),
        ({"first_window": 1.5}, "first_window must be a whole number; got 1.5"),
        ({"capacity": 0}, "capacity must be >= 1; got 0"),
        ({"capacity": 10**6}, "capacity must be <= 65535; got 1000000"),
        ({"half_life": 0}, "half_life must be > 0; got 0"),
        ({"half_life": math.nan}, "half_life must be finite; got nan"),
        ({"drift": -0.1}, "drift must be >= 0; got -0.1"),
        ({"seed": -1}, "seed must be >= 0; got -1"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(PenstockError) as caught:
        LoadAware(average(1), **params)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"keys": [1.5], "arrival_ms": [0.0]}, "keys must be whole numbers"),
        ({"keys": [1, 2], "arrival_ms": [0.0]}, "arrival_ms must have shape (2,); got (1,)"),
        (
            {"keys": [1], "arrival_ms": [0.0], "now_ms": [0.0, 1.0]},
            "now_ms must have shape (1,); got (2,)",
        ),
        (
            {"keys": [1, 2], "arrival_ms": [0.0, 1.0], "protected": [True]},
            "protected must have shape (2,); got (1,)",
        ),
        ({"keys": [1], "arrival_ms": ["soon"]}, "arrival_ms must be numbers; got ['soon']"),
    ],
)
def test_bad_records(given, message):
    with pytest.raises(PenstockError) as caught:
        knowing({1: 1.0}).admit(**given)
    assert str(caught.value).startswith(message)


def test_as_published_is_another_shedder():
    published = LoadAware.as_published(average("6.4 ms"), epsilon=0.1)
    assert published == LoadAwareAsPublished(average("6.4 ms"), epsilon=0.1)


# When the stream begins must not matter.


def dropped_if_it_begins_at(start_ms, target):
    stream = Synthetic(records=5_000, min_cost_ms=0.1, max_cost_ms=6.4).stream(1)
    times = np.arange(5_000) * 0.75 * stream.costs_ms.mean()
    result = simulate(RoundRobin(1), stream.arriving(start_ms + times), shedder=LoadAware(target))
    return result.dropped_ratio()


def test_the_time_of_day_does_not_matter_to_each_record():
    target = each_record("6.4 ms")
    assert dropped_if_it_begins_at(2.0**30, target) == dropped_if_it_begins_at(0.0, target)


@pytest.mark.parametrize("target", [average("6.4 ms"), sliding_average("6.4 ms")])
def test_the_time_of_day_does_not_matter_to_an_average(target):
    late = dropped_if_it_begins_at(2.0**30, target)
    assert late == pytest.approx(dropped_if_it_begins_at(0.0, target), abs=0.01)
