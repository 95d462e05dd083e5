"""Proactive: an independent twin, its clocks, what it learns of costs and of slowdowns."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import PlainProactive, PlainTable

from penstock.errors import PenstockError
from penstock.policies import codec
from penstock.policies.costs import CountMin, SpaceSaving
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import Proactive, ProactiveAsPublished
from penstock.sim import Synthetic, simulate


def learnt(grouping):
    """All learned state, by name."""
    return codec.decode(grouping._label(), grouping.snapshot())


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32),
    st.integers(1, 5),
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from([40.0, 300.0, float("inf")]),
    st.sampled_from([0.005, 0.02, 0.3]),
    st.sampled_from([0.0, 3.0]),
)
def test_is_the_plain_twin(seed, k, window, first_window, half_life, drift, noise_ms):
    rng = np.random.default_rng(seed)
    records = 250
    keys = np.minimum(rng.zipf(1.5, size=records), 40)
    costs = 1.0 + keys * 37 % 64 + noise_ms * rng.random(records)
    now = np.arange(records) * costs.mean() / k
    slow = rng.uniform(0.5, 2.0, size=k)
    grouping = Proactive(k, window, first_window, 240, half_life, drift)
    twin = PlainProactive(k, window, first_window, half_life, drift)
    trackers = [grouping.tracker(i) for i in range(k)]
    measured = [PlainTable() for _ in range(k)]
    free = [0.0] * k
    mailbox = []
    for n in range(records):
        for message in [m for m in mailbox if m[0] <= now[n]]:
            mailbox.remove(message)
            _, feedback, table = message
            grouping.observe(feedback)
            twin.observe(feedback.instance, table, feedback.delta_ms)
        routed = grouping.route_until_answer(keys[n : n + 1], now[n : n + 1])
        chosen, sent = twin.route(int(keys[n]), now[n], routed.instances[0])
        assert routed.instances.tolist() == [chosen]
        assert (routed.request.estimate_ms if routed.request else None) == pytest.approx(sent)
        cost = slow[chosen] * costs[n]
        free[chosen] = max(free[chosen], now[n]) + cost
        measured[chosen].update(int(keys[n]), cost)
        one = np.array([cost])
        answers = trackers[chosen].execute(keys[n : n + 1], one, free[chosen], routed.request)
        for answer in answers:
            mailbox.append((free[chosen], answer, measured[chosen]))
            measured[chosen] = PlainTable()
    np.testing.assert_allclose(learnt(grouping)["slowdown"], twin.slowdown, rtol=1e-9)
    np.testing.assert_allclose(learnt(grouping)["uncertainty"], twin.uncertainty, rtol=1e-9)
    np.testing.assert_allclose(learnt(grouping)["clock_ms"], twin.clocks, rtol=1e-9)
    expected = [twin.costs.estimate(key) for key in range(50)]
    np.testing.assert_allclose(grouping.expected_ms(range(50)), expected, rtol=1e-9)


def told(**costs_ms):
    """A message's costs, from key_1=10.0, ..."""
    costs = SpaceSaving(capacity=16)
    costs.update([int(name.removeprefix("key_")) for name in costs_ms], list(costs_ms.values()))
    return costs


def running(k=2, **params):
    """A grouping that has heard of every instance: key 1 costs 10, key 2 costs 1."""
    grouping = Proactive(k, **params)
    for instance in range(k):
        grouping.observe(Feedback(instance, told(key_1=10.0, key_2=1.0), delta_ms=0.0))
    return grouping


def step(grouping, keys):
    """Route some records at time 0: what the last one carries."""
    keys = np.array(keys)
    return grouping.route_until_answer(keys, np.zeros(keys.size)).request


def test_round_robin_until_everyone_has_answered():
    grouping = Proactive(3)
    grouping.observe(Feedback(0, told(key_1=10.0), delta_ms=0.0))
    grouping.observe(Feedback(2, told(key_1=10.0), delta_ms=0.0))
    assert (grouping.state, grouping.running) == ("ROUND ROBIN", False)
    assert grouping.route([1] * 4).tolist() == [0, 1, 2, 0]
    grouping.observe(Feedback(1, told(key_1=10.0), delta_ms=0.0))
    assert (grouping.state, grouping.running) == ("RUN", True)
    again = grouping.clone()
    again.restore(grouping.snapshot())
    assert again.running


def test_clocks_by_hand():
    grouping = running()
    # 0: 10 | 1: 1, 11 | 0: 20 | 1 was idle until 50: 51.
    assert grouping.route([1, 2, 1, 1], [0.0] * 4).tolist() == [0, 1, 1, 0]
    assert grouping.route([2], [50.0]).tolist() == [1]
    assert learnt(grouping)["clock_ms"].tolist() == [20.0, 51.0]


def test_answers_set_the_clock_right():
    grouping = running()
    grouping.observe(Feedback(0, delta_ms=25.0))
    assert grouping.route([1, 1, 1, 1]).tolist() == [1, 1, 1, 0]
    grouping.observe(Feedback(1, delta_ms=-30.0))
    assert grouping.route([2]).tolist() == [1]


def test_an_answer_replaces_the_one_before():
    grouping = running(window=1, first_window=1)
    asked = [step(grouping, [1]).estimate_ms for _ in range(4)]
    assert asked == [10.0, 10.0, 20.0, 20.0]  # 0, 1, 0, 1
    # Both requests to 0 were sent before any answer: the same 7 ms are missing in both.
    for delta_ms in (7.0, 7.0):
        grouping.observe(Feedback(0, delta_ms=delta_ms))
        assert learnt(grouping)["clock_ms"].tolist() == [27.0, 20.0]
    # What is sent next is not corrected, so that its answer counts from the beginning, too.
    assert [step(grouping, [1]).estimate_ms for _ in range(2)] == [30.0, 30.0]
    grouping.observe(Feedback(0, delta_ms=3.0))
    assert learnt(grouping)["clock_ms"].tolist() == [33.0, 30.0]


def test_requests_carry_the_clock_after_windows_that_double():
    grouping = Proactive(2, window=4, first_window=1)
    asked = []
    for i in range(24):
        routed = grouping.route_until_answer(np.array([1]), np.array([float(i)]))
        assert routed.answerable == (routed.request is not None)
        if routed.request:
            asked.append((i, routed.request.instance))
            assert routed.request.estimate_ms == i  # nothing is known of costs yet
    # Windows of 1, 2, 4, 4 records of each of the two.
    assert asked == [(0, 0), (1, 1), (4, 0), (5, 1), (12, 0), (13, 1), (20, 0), (21, 1)]


def test_unseen_keys_cost_the_mean_of_rare_ones():
    assert Proactive(2).expected_ms([1]).tolist() == [0.0]
    assert running().expected_ms([1, 2, 99]).tolist() == [10.0, 1.0, 5.5]


@pytest.mark.parametrize("true", [(1.0, 1.0, 1.0), (0.8, 1.0, 1.2), (0.5, 1.0, 1.5)])
def test_slowdowns_converge_to_the_true_ones(true):
    stream = Synthetic(records=20_000).stream(1).provisioned(3, 1.1)
    grouping = Proactive(3)
    simulate(grouping, stream, slowdowns=[(0, true)])
    np.testing.assert_allclose(learnt(grouping)["slowdown"], true, rtol=0.03)
    keys = np.arange(20)
    np.testing.assert_allclose(
        grouping.expected_ms(keys), stream.exact_costs().estimate(keys), rtol=0.05
    )


@pytest.mark.parametrize("params", [{"drift": 0}, {"drift": 0.02}, {"half_life": 100, "drift": 0}])
def test_equal_costs_leave_slowdowns_finite(params):
    grouping = Proactive(2, **params)
    for _ in range(20):
        for instance in (0, 1):
            grouping.observe(Feedback(instance, told(key_1=5.0, key_2=5.0), delta_ms=0.0))
    np.testing.assert_allclose(learnt(grouping)["slowdown"], [1.0, 1.0])


def test_a_key_that_comes_back_after_very_long_has_a_cost():
    grouping = running(half_life=1)
    for _ in range(400):
        for instance in (0, 1):
            grouping.observe(Feedback(instance, told(key_2=1.0), delta_ms=0.0))
    assert 0 < grouping.expected_ms([1])[0] <= 10
    assert grouping.expected_ms([2])[0] == pytest.approx(1, rel=0.01)
    assert set(grouping.route([1] * 10).tolist()) == {0, 1}


@pytest.mark.parametrize("k", [1, 3, 5])
def test_resize_keeps_learnt_costs(k):
    grouping = running(k=3)
    grouping.resize(k)
    assert grouping.state == "RUN"
    assert grouping == Proactive(k)
    np.testing.assert_allclose(grouping.expected_ms([1, 2, 99]), [10.0, 1.0, 5.5])
    assert set(grouping.route([1] * 4 * k).tolist()) == set(range(k))


def test_resize_starts_new_instances_idle_and_of_average_speed():
    grouping = running(k=2)
    grouping.route([1, 1, 1, 1])
    grouping.resize(3)
    assert grouping.route([1, 1]).tolist() == [2, 2]
    assert learnt(grouping)["slowdown"].tolist() == [1.0, 1.0, 1.0]


def test_resize_while_learning_learns_on():
    grouping = Proactive(2)
    grouping.route([1])
    grouping.resize(3)
    assert grouping.state == "ROUND ROBIN"
    assert grouping.route([1] * 4).tolist() == [0, 1, 2, 0]


def test_messages_of_removed_instances_are_dropped():
    grouping = running(k=3)
    grouping.resize(2)
    before = grouping.snapshot()
    grouping.observe(Feedback(2, told(key_1=99.0), delta_ms=50.0))
    assert grouping.snapshot() == before


def test_presets():
    frugal = Proactive.frugal(5, half_life=100)
    assert (frugal.window, frugal.first_window, frugal.half_life) == (2048, 128, 100)
    assert Proactive.frugal(5, window=7).window == 7
    assert Proactive.as_published(3, tolerance=0.1) == ProactiveAsPublished(3, tolerance=0.1)


def test_other_cost_models_are_refused():
    with pytest.raises(PenstockError, match=r"costs must be SpaceSaving; got CountMin\("):
        Proactive(2).observe(Feedback(0, CountMin()))


@pytest.mark.parametrize(
    "params, message",
    [
        ({"instances": 0}, "instances must be >= 1; got 0"),
        ({"instances": 2, "window": 0}, "window must be >= 1; got 0"),
        ({"instances": 2, "first_window": 0}, "first_window must be >= 1; got 0"),
        ({"instances": 2, "capacity": 70_000}, "capacity must be <= 65535; got 70000"),
        ({"instances": 2, "half_life": 0}, "half_life must be > 0; got 0"),
        ({"instances": 2, "drift": -1}, "drift must be >= 0; got -1"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(PenstockError) as caught:
        Proactive(**params)
    assert str(caught.value) == message
