"""LAS as published: the states of Figure 3, and Listing 3.2 by hand."""

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.policies.costs import SpaceSaving
from penstock.policies.feedback import Feedback
from penstock.policies.shedding import (
    LoadAwareAsPublished,
    average,
    each_record,
    sliding_average,
)

NOBODY = np.zeros(0, dtype=np.bool_)


def matrices(shedder, costs):
    """What an operator sends that has executed these costs by key."""
    model = shedder.measurements()
    model.update(list(costs), list(costs.values()))
    return Feedback(0, model)


def step(shedder, keys, now):
    times = np.broadcast_to(float(now), len(keys)).copy()
    return shedder.admit_until_answer(np.array(keys), times, times, NOBODY)


def make(target=None, **params):
    return LoadAwareAsPublished(target or each_record("5 ms"), epsilon=0.25, **params)


def running(target=None, cumulated_ms=0.0):
    """A shedder that knows that key 1 costs 4 ms (5 ms with its margin), after its first answer."""
    shedder = make(target)
    shedder.observe(matrices(shedder, {1: 4.0}))
    request = step(shedder, [1], 0.0).request
    shedder.observe(Feedback(0, epoch=request.epoch, delta_ms=cumulated_ms - request.estimate_ms))
    return shedder


def test_states_of_figure_3():
    shedder = make()
    assert shedder.state == "NOP"
    assert not shedder.running
    assert step(shedder, [1, 1], 0.0).request is None
    shedder.observe(matrices(shedder, {1: 4.0}))
    assert shedder.state == "SEND"
    assert not shedder.running
    found = step(shedder, [1, 1], 0.0)
    assert found.mask.tolist() == [True]  # the very next one carries the request
    assert found.answerable
    assert (found.request.epoch, found.request.estimate_ms) == (1, 5.0)
    assert shedder.state == "RUN"
    assert shedder.running
    assert step(shedder, [1], 0.0).request is None
    shedder.observe(Feedback(0, epoch=1, delta_ms=-1.0))
    assert shedder.state == "RUN"
    assert shedder.running
    shedder.observe(matrices(shedder, {1: 8.0}))
    assert shedder.state == "SEND"
    assert not shedder.running
    assert step(shedder, [1], 1_000.0).request.epoch == 2
    assert shedder.state == "RUN"
    assert shedder.running


def test_nothing_is_shed_before_the_first_answer():
    shedder = make()
    assert shedder.admit([1] * 50, np.zeros(50)).all()
    shedder.observe(matrices(shedder, {1: 4.0}))
    assert shedder.admit([1] * 50, np.zeros(50)).all()
    assert shedder.state == "RUN"
    assert shedder.running
    shedder.observe(Feedback(0, epoch=1, delta_ms=0.0))
    assert not shedder.admit([1] * 50, np.zeros(50)).any()


def test_an_answer_of_an_older_epoch_changes_nothing():
    shedder = make()
    shedder.observe(matrices(shedder, {1: 4.0}))
    step(shedder, [1], 0.0)
    shedder.observe(matrices(shedder, {1: 4.0}))
    shedder.observe(Feedback(0, epoch=1, delta_ms=1e6))
    assert shedder.admit([1] * 10, np.zeros(10)).all()


def test_each_record_by_hand():
    shedder = running()
    # Every admitted one adds 5 ms; time passes from 0 on.
    assert shedder.admit([1] * 3, [0.0] * 3).tolist() == [True, True, False]
    assert shedder.admit([1, 1], [5.0, 5.0]).tolist() == [True, False]


def test_an_average_by_hand():
    shedder = running(average("5 ms"))
    # Waits of 0, 5 and 10 are 5 ms on average; 15 is too much, and so is 14.
    assert shedder.admit([1] * 4, [0.0] * 4).tolist() == [True, True, True, False]
    assert shedder.admit([1, 1], [1.0, 10.0]).tolist() == [False, True]


def test_idle_time_is_taken_for_a_negative_queue():
    shedder = running()
    assert shedder.admit([1] * 3, [0.0, 1_000.0, 1_000.0]).tolist() == [True] * 3
    # 995 ms of "credit": the drift that LoadAware does not have.
    assert shedder.admit([1] * 100, np.full(100, 1_000.0)).all()


def test_the_answer_sets_the_cumulated_cost_right():
    assert running(cumulated_ms=5.0).admit([1, 1], [0.0] * 2).tolist() == [True, False]
    assert running(cumulated_ms=5.1).admit([1, 1], [0.0] * 2).tolist() == [False, False]


def test_costs_are_taken_to_be_larger_by_epsilon_and_unseen_keys_cost_nothing():
    shedder = make()
    assert shedder.expected_ms([1, 2]).tolist() == [0.0, 0.0]
    shedder.observe(matrices(shedder, {1: 4.0}))
    assert shedder.expected_ms([1]).tolist() == [4.0]
    assert step(shedder, [1], 0.0).request.estimate_ms == 5.0


def test_new_matrices_replace_the_old_ones():
    shedder = running()
    shedder.observe(matrices(shedder, {1: 8.0}))
    assert shedder.expected_ms([1]).tolist() == [8.0]


def test_the_end_of_the_operators_window_may_be_answered():
    shedder = make(window=4)
    found = [step(shedder, [1] * 10, 0.0) for _ in range(2)]
    assert [one.mask.size for one in found] == [4, 4]
    assert all(one.answerable and one.request is None for one in found)


def test_the_protected_are_admitted():
    shedder = running(cumulated_ms=1e6)
    spared = np.array([True, False, True])
    assert shedder.admit([1] * 3, [0.0] * 3, protected=spared).tolist() == spared.tolist()


def test_restart_keeps_costs_and_goes_on_checking():
    shedder = running(cumulated_ms=1e6)
    assert not shedder.admit([1], [0.0])[0]
    shedder.restart()
    assert shedder.state == "RUN"
    assert shedder.running
    assert shedder.admit([1] * 3, [500.0] * 3).tolist() == [True, True, False]


def test_a_sliding_average_is_not_in_the_paper():
    with pytest.raises(PenstockError) as caught:
        LoadAwareAsPublished(sliding_average("64 ms", records=100))
    assert str(caught.value) == (
        "target must be made by average or each_record, as the paper has no other; "
        "got waiting time, on average over 100 records, at most 64 ms"
    )


@pytest.mark.parametrize(
    "params, message",
    [
        ({"instances": 2}, "instances must be <= 1; got 2"),
        ({"window": 0}, "window must be >= 1; got 0"),
        ({"tolerance": 0.0}, "tolerance must be > 0; got 0"),
        ({"epsilon": 1.0}, "epsilon must be in (0, 1); got 1"),
        ({"epsilon": float("nan")}, "epsilon must be finite; got nan"),
        ({"delta": 0.0}, "delta must be in (0, 1); got 0"),
        ({"seed": -1}, "seed must be >= 0; got -1"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(PenstockError) as caught:
        LoadAwareAsPublished(average(1), **params)
    assert str(caught.value) == message


def test_other_measurements_are_refused():
    shedder = make()
    for costs in (SpaceSaving(capacity=4), LoadAwareAsPublished(average(1)).measurements()):
        with pytest.raises(PenstockError, match="costs must be CountMin"):
            shedder.observe(Feedback(0, costs))


def test_one_instance_stays_one():
    shedder = make()
    shedder.resize(1)
    assert shedder.instances == 1


def test_more_instances_are_refused_by_resize_as_well():
    shedder = make()
    with pytest.raises(PenstockError, match="instances must be <= 1; got 2"):
        shedder.resize(2)
