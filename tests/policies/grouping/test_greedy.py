"""The Greedy Online SyncRounds: Theorem 4.2, its tight example, a plain twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import optimum

from penstock.policies.grouping.greedy import assign, chosen_by, give, least_loaded


def greedy(costs, k, now=None, slowdown=None):
    """Instances chosen, and the clocks at the end."""
    clocks = np.zeros(k)
    out = np.empty(len(costs), dtype=np.int32)
    times = np.zeros(len(costs)) if now is None else np.array(now, dtype=np.float64)
    factors = np.ones(k) if slowdown is None else np.array(slowdown, dtype=np.float64)
    assign(np.array(costs, dtype=np.float64), times, clocks, factors, out)
    return out, clocks


@settings(deadline=None, max_examples=150)
@given(st.lists(st.integers(1, 64), min_size=1, max_size=8), st.integers(1, 4))
def test_makespan_is_within_the_bound_of_the_optimum(costs, k):
    _, clocks = greedy(costs, k)
    best = optimum(costs, k)
    assert best <= clocks.max() <= (2 - 1 / k) * best + 1e-9
    assert clocks.sum() == sum(costs)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 10])
def test_the_bound_is_tight(k):
    # Section IV-A: k (k - 1) records of w_max / k, and then one of w_max.
    _, clocks = greedy([1.0] * (k * (k - 1)) + [float(k)], k)
    assert clocks.max() == (2 - 1 / k) * k
    if k <= 3:
        assert optimum([1] * (k * (k - 1)) + [k], k) == k


RECORD = st.tuples(st.integers(0, 64), st.integers(0, 20))


@settings(deadline=None, max_examples=150)
@given(st.lists(RECORD, max_size=40), st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=1))
def test_is_the_plain_twin(records, slowdown):
    costs = [cost for cost, _ in records]
    now = np.cumsum([gap for _, gap in records])
    clocks = [0.0] * len(slowdown)
    chosen = []
    for cost, time in zip(costs, now, strict=True):
        free_first = clocks.index(min(clocks))
        clocks[free_first] = max(clocks[free_first], time) + slowdown[free_first] * cost
        chosen.append(free_first)
    found, found_clocks = greedy(costs, len(slowdown), now, slowdown)
    assert found.tolist() == chosen
    assert found_clocks.tolist() == clocks


def test_idle_time_is_accounted_for():
    # Instance 0 has been idle since 1: what counts is now, not what it has done so far.
    assert greedy([1.0, 9.0, 5.0, 1.0], 2, now=[0.0, 0.0, 8.0, 8.0])[0].tolist() == [0, 1, 0, 1]


def test_ties_go_to_the_first():
    assert least_loaded(np.array([2.0, 1.0, 1.0])) == 1
    assert greedy([0.0, 0.0, 0.0], 3)[0].tolist() == [0, 0, 0]


def test_small_steps():
    loads = np.array([3.0, 1.0, 2.0])
    assert [chosen_by(turn, loads) for turn in range(3)] == [(0, 1), (1, 2), (2, 0)]
    assert chosen_by(0, loads[:1]) == (0, 0)
    assert chosen_by(-1, loads) == (1, -1)
    clocks = np.array([5.0, 7.0])
    give(0, 2.0, 6.0, clocks, np.array([3.0, 1.0]))
    assert clocks.tolist() == [12.0, 7.0]
    give(1, 2.0, 6.0, clocks, np.array([3.0, 1.0]))
    assert clocks.tolist() == [12.0, 9.0]
