"""The check of aggregators: what it accepts, and what it refuses."""

import pytest

from penstock.aggregators import Count, Distinct, Functions, Sum
from penstock.checks import check_aggregator
from penstock.errors import PenstockError
from plain_aggregators import PLAIN, WithLock, WithLockAsBytes, each, rows


@each
def test_the_check_accepts_what_is_ready_made(name):
    aggregator, _ = PLAIN[name]
    check_aggregator(aggregator, rows([4, None, -1, 4, 9, 2, 0, 7, None, 3]))
    check_aggregator(aggregator, rows([None, None, None]))


def test_the_check_accepts_distinct_values():
    check_aggregator(Distinct("x"), rows([4, None, -1, 4, 9, 2, 0, 7, None, 3]))


def test_the_check_accepts_states_that_cannot_be_pickled():
    check_aggregator(WithLockAsBytes(), rows(range(10)))


def functions(zero, update, merge, finish=lambda state: {"found": state}):
    return Functions(lambda: zero, update, merge, finish)


def test_the_check_accepts_four_functions():
    check_aggregator(
        functions(frozenset(), lambda s, r: s | {r["x"]}, lambda a, b: a | b, len),
        rows([1, 2, 2, 3]),
    )


def test_the_check_accepts_merges_in_place():
    def merge(state, other):
        state.update(other)
        other.clear()
        return state

    def update(state, record):
        state.add(record["x"])
        return state

    check_aggregator(Functions(set, update, merge, sorted), rows([1, 2, 2, 3]))


def test_the_check_allows_for_rounding():
    check_aggregator(Sum("x"), rows([0.1, 0.2, 0.3, 1e6, 1e-3]))


def test_the_check_allows_for_rounding_of_what_cancels_out():
    check_aggregator(Sum("x"), rows([0.1, 0.2, -0.3]))


def switches(state, record):
    """How often the value changes: that depends on where the stream is cut."""
    last, count = state
    return record["x"], count + (last is not None and last != record["x"])


REFUSED = {
    "loses": (
        functions(0, lambda s, r: s + 1, max),
        r"^merge must give the state of all records: merge\(merge\(a, b\), c\) "
        r"for 6 records cut at \d and \d must finish as ",
    ),
    "doubles": (
        functions(0, lambda s, r: s + 1, lambda a, b: a + b + (a * b > 0)),
        "of all records",
    ),
    "forgets the other": (functions(0, lambda s, r: s + 1, lambda a, b: a), "identity"),
    "forgets its own": (functions(0, lambda s, r: s + 1, lambda a, b: b), "identity"),
    "is not commutative": (
        functions((), lambda s, r: (*s, r["x"]), lambda a, b: a + b),
        r"^merge must be commutative: merge\(c, merge\(a, b\)\)",
    ),
    "has a wrong identity": (
        functions(1, lambda s, r: s + r["x"], lambda a, b: a + b),
        r"^merge must have zero\(\) as identity: merge\(state, zero\(\)\) "
        r"must finish as \{'found': 26\}; got \{'found': 27\}$",
    ),
    "is the mean of means": (
        functions(
            None,
            lambda s, r: r["x"] if s is None else (s + r["x"]) / 2,
            lambda a, b: b if a is None else a if b is None else (a + b) / 2,
        ),
        "state of all records",
    ),
    "depends on cuts": (
        functions((None, 0), switches, lambda a, b: (b[0] or a[0], a[1] + b[1])),
        "state of all records",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_the_check_refuses_a_merge_that(why):
    aggregator, message = REFUSED[why]
    with pytest.raises(AssertionError, match=message):
        check_aggregator(aggregator, rows([1, 7, 2, 5, 6, 4]))


class LosesAll(Count):
    """Its bytes hold nothing."""

    def dump(self, state):
        return b""

    def load(self, data):
        return 0


def test_the_check_refuses_bytes_that_lose_the_state():
    with pytest.raises(AssertionError, match=r"^a state must be the same after it was written to"):
        check_aggregator(LosesAll(), rows(range(10)))


class Thins(Count):
    """Its bytes hold less and less."""

    def dump(self, state):
        return str(state // 2).encode()

    def load(self, data):
        return int(data)


def test_the_check_refuses_bytes_that_change_the_state():
    with pytest.raises(AssertionError, match=r"^a state must be the same after it was written to"):
        check_aggregator(Thins(), rows(range(10)))


def test_the_check_names_a_state_that_cannot_be_written():
    with pytest.raises(PenstockError, match="a state of type list cannot be serialised"):
        check_aggregator(WithLock(), rows(range(10)))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_check_needs_three_records(count):
    with pytest.raises(PenstockError, match=f"records must be at least 3; got {count}"):
        check_aggregator(Count(), rows(range(count)))


def test_the_check_leaves_the_records_alone():
    given_records = rows([1, 2, 3])

    def update(state, record):
        return state + record.pop("x")

    check_aggregator(functions(0, update, lambda a, b: a + b), given_records)
    assert given_records == rows([1, 2, 3])


@pytest.mark.parametrize("seed", range(5))
def test_the_check_cuts_where_the_seed_says(seed):
    # A merge that is wrong for states of exactly two records is found by some cuts only.
    def merge(a, b):
        return a + b - (a == b == 2)

    cuts = []
    for _ in range(2):
        try:
            check_aggregator(functions(0, lambda s, r: s + 1, merge), rows(range(8)), seed=seed)
            cuts.append(None)
        except AssertionError as error:
            cuts.append(str(error))
    assert cuts[0] == cuts[1]
