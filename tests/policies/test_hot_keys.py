"""Keys that take the most time."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.grouping import Factoring, RoundRobin
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
