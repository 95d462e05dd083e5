"""The admission: an independent twin, and the promises of its targets."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_admission import PlainAdmission, offer

from penstock.policies.shedding import average, each_record, sliding_average
from penstock.policies.shedding.admission import Admission
from penstock.policies.shedding.finish_clock import CLOCK, COUNT, MEAN, PLANNED, SHIFT, WAITED


def same(admission, twin):
    """Hold the sums of both against each other."""
    theirs = {
        CLOCK: twin.clock,
        WAITED: twin.waited,
        COUNT: twin.count,
        MEAN: twin.mean,
        SHIFT: twin.shift,
        PLANNED: twin.planned,
    }
    np.testing.assert_allclose(
        admission.memory.sums[list(theirs)], list(theirs.values()), rtol=1e-9, atol=1e-9
    )


def arriving(drawn):
    """Make (cost, arrival, now, protected) from (cost, gap, delay, protected) in quarters."""
    arrivals = np.cumsum([gap / 4 for _, gap, _, _ in drawn])
    return [
        (cost / 4, arrival, arrival + delay / 4, spared)
        for (cost, _, delay, spared), arrival in zip(drawn, arrivals, strict=True)
    ]


LIMITS = st.sampled_from([0.5, 3.0, 10.0, 100.0])
MAKERS = st.sampled_from(
    [average, each_record, lambda ms: sliding_average(ms, 3), lambda ms: sliding_average(ms, 50)]
)
TARGETS = st.builds(lambda make, limit: make(limit), MAKERS, LIMITS)
RARELY = st.sampled_from([False] * 7 + [True])
DRAWN = st.tuples(st.integers(0, 60), st.integers(0, 12), st.integers(0, 8), RARELY)
RECORDS = st.lists(DRAWN, min_size=1, max_size=120).map(arriving)
UNPROTECTED = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12), st.integers(0, 8), st.just(False)),
    min_size=1,
    max_size=120,
).map(arriving)
PACES = st.sampled_from([1.0, 0.5, 1 / 3, 4.0])


@settings(deadline=None, max_examples=150)
@given(RECORDS, TARGETS, st.booleans(), PACES)
def test_decides_as_the_plain_twin(records, target, cheap, pace):
    admission, twin = Admission(target, cheap), PlainAdmission(target, cheap)
    expected = [twin.admit(*record, pace) for record in records]
    assert offer(admission, records, pace) == expected
    same(admission, twin)
    assert admission.planned_ms == pytest.approx(twin.planned)


@settings(deadline=None, max_examples=150)
@given(
    RECORDS,
    TARGETS,
    st.booleans(),
    PACES,
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(0, 119), st.integers(-40, 80)), max_size=8),
)
def test_is_corrected_as_the_plain_twin(records, target, cheap, pace, logged, answers):
    admission, twin = Admission(target, cheap, logged), PlainAdmission(target, cheap, logged)
    steps = np.array_split(np.arange(len(records)), len(answers) + 1)
    for step, answer in zip(steps, [*sorted(answers), None], strict=True):
        mine = [records[i] for i in step]
        if mine:
            assert offer(admission, mine, pace) == [twin.admit(*record, pace) for record in mine]
        if answer and twin.entries:
            # One of the records that have been admitted so far.
            number = answer[0] * len(twin.entries) // 120
            admission.correct(number, answer[1] / 4, pace)
            twin.correct(number, answer[1] / 4, pace)
        same(admission, twin)
    if logged and twin.entries:
        number, done = admission.request()
        assert number == len(twin.entries) - 1
        assert done == pytest.approx(twin.entries[-1].done)


@settings(deadline=None)
@given(RECORDS, TARGETS, st.lists(st.integers(0, 119), max_size=4))
def test_deciding_in_parts_is_deciding_at_once(records, target, cuts):
    at_once, in_parts = Admission(target), Admission(target)
    edges = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    found = []
    for start, stop in pairwise(edges):
        found += offer(in_parts, records[start:stop]) if stop > start else []
    assert found == offer(at_once, records)


@settings(deadline=None)
@given(RECORDS, TARGETS, st.integers(1, 130))
def test_stops_when_as_many_are_admitted_as_were_left(records, target, wanted):
    whole, admission = Admission(target), Admission(target)
    expected = offer(whole, records)
    left = np.array([wanted])
    found = offer(admission, records, left=left)
    assert found == expected[: len(found)]
    assert left[0] == wanted - sum(found)
    if sum(expected) >= wanted:
        assert left[0] == 0
        assert found[-1]
    else:
        assert len(found) == len(records)


# What the targets promise.


def waits_of(records, admitted, pace=1.0):
    """The planned waits of admitted records, and of all."""
    clock, kept, offered = 0.0, [], []
    for (cost, arrival, now, _), taken in zip(records, admitted, strict=True):
        start = max(clock, now)
        offered.append(start - arrival)
        if taken:
            kept.append(start - arrival)
            clock = start + pace * cost
    return kept, offered


@settings(deadline=None)
@given(UNPROTECTED, LIMITS, PACES)
def test_the_average_never_passes_the_limit(records, limit, pace):
    kept, _ = waits_of(records, offer(Admission(average(limit)), records, pace), pace)
    means = np.cumsum(kept) / np.arange(1, len(kept) + 1)
    assert (means <= limit * (1 + 1e-9)).all()


@settings(deadline=None)
@given(UNPROTECTED, LIMITS, PACES, st.booleans())
def test_no_single_record_waits_longer_than_the_limit(records, limit, pace, cheap):
    kept, _ = waits_of(records, offer(Admission(each_record(limit), cheap), records, pace), pace)
    assert max(kept, default=0.0) <= limit * (1 + 1e-9)


@settings(deadline=None)
@given(UNPROTECTED, LIMITS, st.integers(1, 20))
def test_the_fading_average_never_passes_the_limit(records, limit, n):
    target = sliding_average(limit, n)
    kept, _ = waits_of(records, offer(Admission(target), records))
    waited = count = 0.0
    for wait in kept:
        waited, count = target.fade * waited + wait, target.fade * count + 1
        assert waited <= limit * count * (1 + 1e-9)


@settings(deadline=None)
@given(RECORDS, TARGETS, st.booleans())
def test_who_waits_for_half_of_the_limit_at_most_is_always_admitted(records, target, cheap):
    admitted = offer(Admission(target, cheap), records)
    _, offered = waits_of(records, admitted)
    assert all(
        taken
        for taken, wait in zip(admitted, offered, strict=True)
        if wait <= target.limit_ms / 2 * (1 - 1e-9)
    )


@settings(deadline=None)
@given(RECORDS, TARGETS, st.booleans())
def test_the_protected_are_always_admitted(records, target, cheap):
    admitted = offer(Admission(target, cheap), records)
    assert all(taken for taken, (*_, spared) in zip(admitted, records, strict=True) if spared)


@settings(deadline=None)
@given(RECORDS, LIMITS, st.sampled_from([0.125, 0.5, 1.0]))
def test_a_share_of_the_room_is_given_at_the_beginning(records, limit, share):
    admission = Admission(average(limit))
    offer(admission, records)
    room = limit * admission.memory.sums[COUNT] - admission.memory.sums[WAITED]
    admission.begin(7.0, share)
    assert limit * admission.memory.sums[COUNT] - admission.memory.sums[WAITED] == pytest.approx(
        share * room
    )
    assert admission.memory.sums[CLOCK] == 7.0
    assert admission.planned_ms == 0


def test_a_debt_of_the_past_is_paid_back_and_never_starves():
    admission = Admission(average(10.0))
    admission.note(waited_ms=1_000.0, records=10)
    # 5 ms is half of the limit; 6 ms would do no harm to a clean record.
    assert offer(admission, [(0, 0, 6, False), (0, 0, 5, False), (0, 0, 0, False)]) == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    "target, waited, count",
    [
        (average(1.0), 60.0, 4),
        (each_record(1.0), 15.0, 1),
        (sliding_average(1.0, 2), 28.125, 1.875),
    ],
)
def test_what_has_really_waited_is_noted(target, waited, count):
    admission = Admission(target)
    admission.note(waited_ms=60.0, records=4)
    assert admission.memory.sums[WAITED] == pytest.approx(waited)
    assert admission.memory.sums[COUNT] == pytest.approx(count)
    admission.note(waited_ms=0.0, records=0)
    assert admission.memory.sums[COUNT] == pytest.approx(count)
