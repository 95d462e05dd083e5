"""Lag behind sources with offsets: records, seconds, and partitions that stand out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.control.lag import Skew, SourceLag

STEPS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60)), min_size=1, max_size=40)


def one(offset, number="0"):
    return {("t", number): float(offset)}


@given(STEPS)
def test_seconds_are_the_age_of_the_oldest_unread_record(steps):
    lag, latest, read = SourceLag(), 0, 0
    # The second at whose end each record had arrived.
    arrived = []
    lag.add(0.0, one(0), one(0))
    for second, (came, taken) in enumerate(steps, start=1):
        latest += came
        arrived += [second] * came
        read = min(latest, read + taken)
        lag.add(float(second), one(latest), one(read))
        assert lag.records == latest - read
        if latest == read:
            assert lag.seconds == 0.0
        else:
            age = second - arrived[read]
            assert age <= lag.seconds <= age + 1


def test_records_that_were_there_before_the_first_look_count_from_then_on():
    lag = SourceLag()
    lag.add(10.0, one(500), one(100))
    assert (lag.records, lag.seconds) == (400.0, 0.0)
    lag.add(12.0, one(500), one(300))
    assert (lag.records, lag.seconds) == (200.0, 2.0)


def test_a_partition_that_is_added_counts_from_its_beginning():
    lag = SourceLag()
    lag.add(0.0, one(100), one(100))
    lag.add(1.0, {**one(100), **one(40, "1")}, one(100))
    lag.add(3.0, {**one(100), **one(40, "1")}, one(100))
    assert (lag.records, lag.seconds) == (40.0, 2.0)


def test_the_memory_of_a_query_that_never_catches_up_is_bounded():
    lag = SourceLag()
    for second in range(10_000):
        lag.add(float(second), one(2 * second), one(0))
    assert lag.seconds == pytest.approx(9_999.0)
    lag.add(10_000.0, one(20_000), one(10_000))
    assert lag.seconds == pytest.approx(5_000.0, abs=20.0)


def test_a_topic_that_is_made_again_and_one_that_is_gone_leave_nothing():
    lag = SourceLag()
    lag.add(0.0, one(100), one(0))
    lag.add(5.0, one(10), one(0))
    assert (lag.records, lag.seconds) == (10.0, 0.0)
    lag.add(6.0, {}, {})
    assert (lag.records, lag.seconds, lag.skewed()) == (0.0, 0.0, [])


@pytest.mark.parametrize(
    "counts, expected",
    [
        ([700, 100, 100, 100, 100, 100, 100, 100], [("0", 0.5)]),
        ([100] * 8, []),
        ([80, 20], [("0", 0.8)]),
        ([70, 30], []),
        ([9, 0], []),
        ([400, 400, 50, 50, 50, 50], [("0", 0.4), ("1", 0.4)]),
        ([1000], []),
    ],
)
def test_partitions_with_far_more_records_are_named(counts, expected):
    lag = SourceLag()
    latest = {("t", str(i)): float(n) for i, n in enumerate(counts)}
    lag.add(0.0, latest, {})
    assert lag.skewed() == [Skew(("t", i), share, len(counts)) for i, share in expected]


def test_records_that_were_read_before_do_not_count_as_skew():
    lag = SourceLag()
    read = {("t", "0"): 10_000.0, ("t", "1"): 0.0, ("t", "2"): 0.0}
    lag.add(0.0, read, read)
    lag.add(1.0, {name: n + 100 for name, n in read.items()}, read)
    assert lag.skewed() == []
