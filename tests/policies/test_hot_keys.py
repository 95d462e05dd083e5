"""Keys that take the most time."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.grouping import Factoring, RoundRobin
from penstock.policies.costs import ByCall
from penstock.policies.costs.pooled_by_call import PooledByCall
from penstock.policies.feedback import Feedback

RECORDS = st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 9)), min_size=1, max_size=60)


@given(RECORDS, st.integers(1, 12))
def test_shares_are_those_of_a_plain_count(records, most):
    grouping = Factoring(2)
    measured = grouping.measurements()
    measured.update([key for key, _ in records], [float(cost) for _, cost in records])
    spent, times = defaultdict(float), defaultdict(int)
    for key, cost in records:
        spent[key] += cost
        times[key] += 1
    grouping.observe(Feedback(0, costs=measured))
    found = grouping.hot_keys(most)
    assert len(found) == min(most, len(spent))
    shares = [one.share for one in found]
    assert shares == sorted(shares, reverse=True)
    total = sum(spent.values())
    for one in found:
        assert one.share == pytest.approx(spent[one.key] / total, rel=1e-4)
        assert one.cost_ms == pytest.approx(spent[one.key] / times[one.key], rel=1e-4)


def test_a_policy_without_costs_has_none():
    assert RoundRobin(2).hot_keys(5) == []
    assert Factoring(2).hot_keys(5) == []


def test_costs_that_are_learnt_from_whole_calls_are_shown():
    costs, rng = PooledByCall(instances=1, capacity=8), np.random.default_rng(0)
    for _ in range(200):
        measured, keys = ByCall(capacity=8), rng.integers(0, 2, 10)
        measured.add_call(keys, float(np.where(keys == 0, 9.0, 1.0).sum()))
        costs.learn(0, measured)
    assert costs.useful
    dear, cheap = costs.hot_keys(2)
    assert (dear.key, cheap.key) == (0, 1)
    assert (dear.cost_ms, cheap.cost_ms) == tuple(costs.estimate([0, 1]))
    assert dear.share > 4 * cheap.share
