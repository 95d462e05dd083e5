"""Round robin: in turn, whatever the cuts between calls."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.policies.grouping import RoundRobin


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 20), max_size=8), st.integers(1, 7))
def test_record_i_goes_to_i_modulo_k(sizes, k):
    grouping = RoundRobin(k)
    routed = [i for size in sizes for i in grouping.route([7] * size).tolist()]
    assert routed == [i % k for i in range(sum(sizes))]


def test_neither_keys_nor_time_matter():
    assert RoundRobin(3).route([-5, 0, 2**62, 1], [0.0, 9.0, 9.0, 50.0]).tolist() == [0, 1, 2, 0]


def test_resize_goes_on_within_the_new_number():
    grouping = RoundRobin(5)
    grouping.route([1] * 4)
    grouping.resize(3)
    assert grouping.route([1] * 4).tolist() == [1, 2, 0, 1]
    assert grouping == RoundRobin(3)


def test_asks_for_nothing():
    grouping = RoundRobin(2)
    assert grouping.tracker(0) is None
    assert grouping.fan_out == 2
    assert not grouping.knows_truth
    assert (grouping.state, grouping.running) == ("RUN", True)
