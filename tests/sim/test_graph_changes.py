"""The engine for graphs: plans that take effect, pauses, time-outs, and collapses."""

import numpy as np
import pytest
from graph_runs import CHAIN, NEVER_S, Watching, one

from penstock.policies.scaling import Fixed, Preventive
from penstock.sim import Node, simulate_graph

# Changes.


@pytest.mark.parametrize(
    "delay_s, degrees, used",
    [(0, [1, 3, 3, 3], 100.0), (5, [1, 3, 3, 3], 90.0), (15, [1, 1, 3, 3], 70.0)],
)
def test_plans_take_effect_after_a_delay(delay_s, degrees, used):
    always = Watching({n: {"sink": 3} for n in range(1, 4)})
    result = one(always, np.full(40, 5.0), delay_s=delay_s)
    assert result.degrees["sink"].tolist() == degrees
    assert result.instance_s == pytest.approx(used)
    assert result.reconfigurations == 1
    assert result.reasons == ("10 s: sink: told so, 1 -> 3",)


def test_a_delay_lets_a_queue_grow():
    # 20 a second come until three instances do 30.
    results = [
        one(Watching({1: {"sink": 3}}), np.full(60, 20.0), delay_s=s, timeout_s=NEVER_S)
        for s in (0, 10)
    ]
    longest = [result.latencies_s.max() for result in results]
    # 100 and 200 records wait: 10 and 20 s for one instance, at most.
    assert longest == pytest.approx([5.1, 10.1], abs=0.3)
    assert results[0].latency_s[-1] == pytest.approx(0.1)


def test_what_is_planned_is_not_planned_again():
    degrees = {n: {"sink": 2} for n in range(1, 6)}
    result = one(Watching(degrees), np.full(60, 5.0), delay_s=25)
    assert result.reconfigurations == 1
    assert result.degrees["sink"].tolist() == [1, 1, 1, 2, 2, 2]


def test_a_plan_that_changes_nothing_does_not_undo_one_on_its_way():
    result = one(Watching({1: {"sink": 3}}), np.full(60, 5.0), delay_s=15)
    assert result.reasons == ("10 s: sink: told so, 1 -> 3",)
    assert result.degrees["sink"].tolist() == [1, 1, 3, 3, 3, 3]


def test_an_operator_that_changes_pauses_and_others_do_not():
    rates = np.full(40, 20.0)
    calm = simulate_graph(
        Watching({1: {"parse": 2}}),
        CHAIN,
        {"parse": Node(10.0), "sink": Node(10.0)},
        rate_per_s=rates,
    )
    assert calm.latencies_s.max() == pytest.approx(0.02)
    watching = Watching({1: {"parse": 2}})
    nodes = {"parse": Node(10.0), "sink": Node(10.0)}
    paused = simulate_graph(watching, CHAIN, nodes, rate_per_s=rates, pause_s=5.0)
    # Whatever came first in the pause waits for all of it.
    assert paused.latencies_s.max() == pytest.approx(5.02)
    second = watching.histories[1].operators
    assert second["parse"].received[-1] == pytest.approx(200)
    assert paused.latency_s[0] == pytest.approx(0.02)
    assert paused.latency_s[-1] == pytest.approx(0.02)
    assert paused.amounts.sum() == pytest.approx(800)


def test_a_pause_of_one_operator_leaves_others_at_work():
    watching = Watching({1: {"sink": 2}})
    nodes = {"parse": Node(10.0), "sink": Node(10.0)}
    simulate_graph(watching, CHAIN, nodes, rate_per_s=np.full(30, 20.0), pause_s=20.0)
    last = watching.histories[-1].operators
    np.testing.assert_allclose(last["parse"].processed, [200, 200])
    np.testing.assert_allclose(last["sink"].processed, [200, 0])
    assert last["sink"].pending == pytest.approx(200)


def test_scalers_are_told_how_long_nothing_changed():
    watching = Watching({2: {"parse": 2}})
    nodes = {"parse": Node(10.0), "sink": Node(10.0)}
    simulate_graph(watching, CHAIN, nodes, rate_per_s=np.full(60, 20.0))
    found = [history.operators["parse"].unchanged for history in watching.histories]
    assert found[2:] == [1, 2, 3]
    assert all(history.operators["sink"].unchanged > 10_000 for history in watching.histories)
    assert [h.operators["parse"].degree for h in watching.histories] == [1, 1, 2, 2, 2]


def test_a_first_part_of_a_period_is_not_told():
    watching = Watching()
    rates = np.concatenate([np.full(4, 50.0), np.full(26, 8.0)])
    result = one(watching, rates, 1.0, phase_s=4.0)
    assert [history.periods for history in watching.histories] == [1, 2]
    np.testing.assert_allclose(watching.histories[-1].operators["sink"].received, 80)
    np.testing.assert_allclose(result.rate_per_s, [50, 8, 8, 8])


# Time-outs and collapses.

BURST = np.concatenate([np.full(30, 30.0), np.full(300, 5.0)])


def test_a_collapse_sustains_itself():
    result = one(Fixed(), BURST, timeout_s=5.0)
    assert result.timed_out > BURST.sum()
    # Half of the capacity would do, for five minutes.
    assert result.latency_s[-1] > 5
    assert (np.diff(result.latency_s[4:]) > 0).all()


def test_without_timeouts_a_burst_is_worked_off():
    result = one(Fixed(), BURST, timeout_s=NEVER_S)
    assert result.timed_out == 0
    assert result.latency_s[-1] == pytest.approx(0.1)
    assert result.amounts.sum() == pytest.approx(BURST.sum())


def test_without_overload_there_is_no_collapse():
    result = one(Fixed(), np.full(300, 9.5), timeout_s=5.0)
    assert result.timed_out == 0
    np.testing.assert_allclose(result.latencies_s, 0.1)


def test_more_instances_end_a_collapse():
    result = one(Preventive(), BURST, timeout_s=5.0)
    assert result.timed_out > 0
    assert result.latency_s[-1] == pytest.approx(0.1)
    assert result.degrees["sink"].max() > 1
    assert result.degrees["sink"][-1] == 1


def test_a_replay_is_one_more_record():
    # All that comes in a pause of 4 s is replayed once after 3 s, unless it came in the last 3.
    result = one(Watching({1: {"sink": 2}}), np.full(40, 4.0), 10.0, pause_s=4.0, timeout_s=3.0)
    assert result.timed_out == pytest.approx(4, abs=0.5)
    assert result.amounts.sum() == pytest.approx(160 + result.timed_out)
