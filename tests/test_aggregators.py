"""Aggregators: each against a plain computation, in one piece and in several, and as bytes."""

import sys
import threading
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.aggregators import Aggregator, Count, Distinct, Mean, Sum, TopK, dumps, loads
from penstock.errors import PenstockError
from plain_aggregators import PLAIN, WithLock, WithLockAsBytes, each

VALUES = st.lists(st.one_of(st.none(), st.integers(-50, 50)), max_size=30)


def state_of(aggregator, values):
    """The state of some values, in one piece."""
    state = aggregator.zero()
    for value in values:
        state = aggregator.update(state, {"x": value, "other": 1})
    return state


@settings(deadline=None, max_examples=80)
@given(VALUES)
@each
def test_is_the_plain_computation(name, values):
    aggregator, plain = PLAIN[name]
    assert aggregator.finish(state_of(aggregator, values)) == plain(values)


@settings(deadline=None, max_examples=80)
@given(st.lists(VALUES, max_size=6), st.randoms(use_true_random=False))
@each
def test_pieces_make_the_whole_in_any_order(name, pieces, random):
    aggregator, plain = PLAIN[name]
    expected = plain([value for piece in pieces for value in piece])
    states = [aggregator.zero(), *(state_of(aggregator, piece) for piece in pieces)]
    while len(states) > 1:
        left, right = (states.pop(random.randrange(len(states))) for _ in range(2))
        # As on their way from one task to another.
        left, right = (loads(aggregator, dumps(aggregator, state)) for state in (left, right))
        states.append(aggregator.merge(left, right))
    assert aggregator.finish(states[0]) == expected


@settings(deadline=None, max_examples=40)
@given(VALUES, VALUES)
@each
def test_a_merged_state_takes_more_records(name, before, after):
    aggregator, plain = PLAIN[name]
    state = aggregator.merge(state_of(aggregator, before), state_of(aggregator, before))
    for value in after:
        state = aggregator.update(state, {"x": value})
    assert aggregator.finish(state) == plain([*before, *before, *after])


@pytest.mark.parametrize(
    "name, expected",
    [
        ("count", {"count": 0}),
        ("sum", {"sum": None}),
        ("mean", {"mean": None, "count": 0}),
        ("top 3", {"top": []}),
    ],
)
def test_no_records(name, expected):
    aggregator, _ = PLAIN[name]
    assert aggregator.finish(aggregator.zero()) == expected


def test_nulls_are_left_out_but_counted():
    values = [None, 3, None, 5]
    found = [
        aggregator.finish(state_of(aggregator, values))
        for aggregator in (Count(), Sum("x"), Mean("x"), TopK("x"), Distinct("x"))
    ]
    assert found[:-1] == [{"count": 4}, {"sum": 8}, {"mean": 4.0, "count": 2}, {"top": [5, 3]}]
    assert found[-1]["distinct"] == pytest.approx(2)


def test_sums_have_the_type_of_the_column():
    assert state_of(Sum("x"), [Decimal("0.1"), Decimal("0.2")]) == Decimal("0.3")
    assert isinstance(state_of(Sum("x"), [1, 2]), int)


def test_means_of_decimals():
    state = state_of(Mean("x"), [Decimal("0.1"), Decimal("0.3")])
    assert Mean("x").finish(state) == {"mean": pytest.approx(0.2), "count": 2}


def test_the_largest_texts():
    top = TopK("x", 2)
    assert top.finish(state_of(top, ["b", "a", None, "c"])) == {"top": ["c", "b"]}


def test_a_state_of_the_largest_stays_small():
    top = TopK("x", 3)
    state = top.merge(state_of(top, range(100)), state_of(top, range(50, 200)))
    assert len(state) == 3
    assert len(top.update(state, {"x": 500})) == 3


def test_without_its_column_a_record_is_an_error():
    with pytest.raises(KeyError):
        Sum("x").update(None, {"y": 1})


def test_what_has_four_methods_is_an_aggregator():
    for aggregator in (Count(), Sum("x"), Mean("x"), TopK("x"), Distinct("x"), WithLock()):
        assert isinstance(aggregator, Aggregator)
    assert not isinstance(np.zeros(2), Aggregator)


# Distinct values.


def distinct_of(values):
    distinct = Distinct("x")
    state = distinct.zero()
    for value in values:
        state = distinct.update(state, {"x": value})
    return round(distinct.finish(state)["distinct"])


def test_an_empty_text_is_a_value():
    assert distinct_of([""]) == 1
    assert distinct_of(["", None, "a", ""]) == 2


def test_maps_are_equal_in_any_order():
    assert distinct_of([{"a": 1, "b": [2]}, {"b": [2], "a": 1}]) == 1
    assert distinct_of([{"a": 1, "b": 2}, {"a": 2, "b": 1}]) == 2
    assert distinct_of([[{"a": 1, "b": 2}], [{"b": 2, "a": 1}]]) == 1


def test_whole_numbers_of_any_size_are_values():
    assert distinct_of([2**63 - 1, 2**63, 2**70, -(2**63), -(2**64), 2**70]) == 5


@pytest.mark.parametrize(
    "values", [range(20_000), [f"user {i}" for i in range(20_000)]], ids=["numbers", "texts"]
)
def test_distinct_values_of_many(values):
    distinct = Distinct("x")
    states = [state_of(distinct, part) for part in (values[:12_000], values[8_000:])]
    for state in (state_of(distinct, values), distinct.merge(*states)):
        # Three standard errors.
        assert distinct.finish(state)["distinct"] == pytest.approx(20_000, rel=3 * 0.013)


def test_distinct_values_of_few_are_nearly_exact():
    distinct = Distinct("x")
    values = [1, 2, 2, 3, 1, None, "1", (1, 2), (1, 2), 2.5]
    assert distinct.finish(state_of(distinct, values))["distinct"] == pytest.approx(6, rel=1e-3)


def test_precision_is_kept_as_bytes_and_when_merged():
    distinct = Distinct("x", precision=14)
    states = [state_of(distinct, part) for part in (range(30_000), range(20_000, 50_000))]
    states = [distinct.load(distinct.dump(state)) for state in states]
    merged = distinct.merge(*states)
    assert merged.lg_config_k == 14
    assert distinct.finish(merged)["distinct"] == pytest.approx(50_000, rel=3 * 0.0065)


def test_without_its_package_distinct_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(PenstockError) as caught:
        Distinct("x")
    assert str(caught.value) == (
        "Distinct needs datasketches; run in a clone: pip install '.[sketches]'"
    )


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: TopK("x", 0), "k must be >= 1; got 0"),
        (lambda: TopK("x", 2.0), "k must be a whole number; got 2.0"),
        (lambda: Distinct("x", 3), "precision must be >= 4; got 3"),
        (lambda: Distinct("x", 22), "precision must be <= 21; got 22"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(PenstockError) as caught:
        make()
    assert str(caught.value) == message


def test_distinct_values_do_not_depend_on_where_the_stream_is_cut():
    distinct = Distinct("x")
    whole = distinct.finish(state_of(distinct, range(1_000)))
    parts = [state_of(distinct, part) for part in (range(500), range(500, 1_000))]
    assert distinct.finish(distinct.merge(*parts)) == whole


# States as bytes.


def test_dump_and_load_are_used_if_there_are_any():
    aggregator = WithLockAsBytes()
    data = dumps(aggregator, aggregator.update(aggregator.zero(), {}))
    assert data == b"1"
    assert aggregator.finish(loads(aggregator, data)) == {"count": 1}


def test_bytes_like_dumps_become_bytes():
    for kind in (bytearray, memoryview):
        aggregator = WithLockAsBytes()
        aggregator.dump = lambda state, kind=kind: kind(b"7")
        data = dumps(aggregator, aggregator.zero())
        assert type(data) is bytes
        assert data == b"7"


@pytest.mark.parametrize(
    "state, message",
    [
        (lambda: 0, r"a state of type function cannot be serialised \(.*lambda.*\)\. "),
        (threading.Lock(), r"a state of type lock cannot be serialised \(TypeError: .*\)\. "),
    ],
)
def test_a_state_that_cannot_be_written_says_what_to_do(state, message):
    advice = r"Keep plain values in it, .* dump\(state\) -> bytes"
    with pytest.raises(PenstockError, match=message + advice):
        dumps(Count(), state)


def test_a_dump_of_something_else_is_refused():
    aggregator = WithLockAsBytes()
    aggregator.dump = lambda state: "text"
    with pytest.raises(PenstockError, match="dump must return bytes; got str"):
        dumps(aggregator, aggregator.zero())
