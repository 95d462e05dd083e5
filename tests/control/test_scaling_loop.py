"""From a scaler's plans to executors: limits, reasons, the journal, and dry runs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scaled_query import (
    BUSY,
    FOLLOWING,
    WAITING,
    Told,
    fill,
    followed,
    journal_of,
    loop_of,
    planned,
)

from penstock.control import Journal, Limits
from penstock.control.timeline import Look, Work
from penstock.policies.scaling import Preventive, Scaler

SCALERS = [pytest.param(one(), id=name) for name, one in Scaler.registered().items()]


# Limits.


@pytest.mark.parametrize(
    "degree, expected", [(1, 2), (5, 2), (8, 2), (9, 3), (12, 3), (24, 6), (25, 6), (1_000, 6)]
)
def test_as_many_executors_as_instances_need_slots_within_limits(degree, expected):
    assert Limits(min_executors=2, max_executors=6, slots=4).executors(degree) == expected


@given(
    st.integers(1, 500),
    st.integers(1, 16),
    st.integers(1, 20),
    st.integers(0, 20),
    st.floats(0, 1e12),
)
def test_executors_are_always_within_limits(degree, slots, least, more, state_bytes):
    limits = Limits(least, least + more, slots, state_bytes=1e9)
    found = limits.executors(degree, state_bytes)
    assert least <= found <= least + more
    if found > least:
        assert (found - 1) * slots < degree or (found - 1) * 1e9 < state_bytes
    if found < least + more:
        assert found * slots >= degree
        assert found * 1e9 >= state_bytes


@pytest.mark.parametrize(
    "state_bytes, expected", [(0.0, 1), (1e9, 1), (1.1e9, 2), (4e9, 4), (4.5e9, 5), (1e12, 6)]
)
def test_the_state_must_fit_into_memory(state_bytes, expected):
    limits = Limits(1, 6, 4, state_bytes=1e9)
    assert limits.executors(2, state_bytes) == expected
    assert (limits.holding(state_bytes) > expected) == (state_bytes > 6e9)


def test_state_takes_no_room_if_memory_is_not_limited():
    assert Limits(1, 6, 4).executors(2, 1e15) == 1


def test_a_plan_counts_slots_and_memory():
    _, [plan] = planned(7, limits=Limits(1, 8, 2))
    assert (plan.executors, plan.degree) == (4, 7)
    _, [plan] = planned(7, limits=Limits(1, 8, 2, 1e9), state_bytes=5e9)
    assert (plan.executors, plan.degree) == (5, 7)
    _, [plan] = planned(7, limits=Limits(1, 3, 2, 1e9), state_bytes=5e9)
    assert (plan.executors, plan.degree) == (3, 6)


def test_a_query_begins_with_all_slots():
    loop, _ = planned(4, executors=3, limits=Limits(1, 8, 2))
    assert loop._scaler.shown[0].degree == 6


def test_to_a_scaler_a_query_is_one_operator_whatever_it_is_made_of():
    operators = {"parse": Work(10, 30, 20.0), "sink": Work(30, 0, 90.0)}
    loop = loop_of(Told([3]))
    plan = loop.plan(fill(loop, operators=operators), WAITING)
    [seen] = loop._scaler.shown
    assert seen.received.tolist() == pytest.approx([100] * 3)
    assert seen.mean_cost_ms == pytest.approx(20)
    assert plan.reason == "words: told so, 2 -> 3"
    [entry] = journal_of(loop, "observation")
    assert entry["operators"]["sink"] == {"processed": 30, "emitted": 0, "busy_ms": 90.0}


@pytest.mark.parametrize("scaler", SCALERS)
@pytest.mark.parametrize("most, slots", [(1, 1), (3, 4), (50, 2)])
def test_a_query_may_have_all_slots_whatever_the_scaler_was_made_with(scaler, most, slots):
    given_ = scaler.clone(max_degree=2, min_degree=2)
    loop = loop_of(given_, limits=Limits(1, most, slots))
    assert loop._scaler.max_degree == most * slots
    assert loop._scaler.min_degree == min(2, most * slots)
    assert type(loop._scaler) is type(scaler)
    assert given_.max_degree == 2  # it is the user's


@pytest.mark.parametrize("scaler", FOLLOWING)
def test_more_than_eight_instances_can_be_planned(scaler):
    loop = loop_of(scaler, 8, limits=Limits(1, 20, 2))
    found = followed(loop, lambda _: 1_000.0, 20)
    assert 10 < found[-1] <= 14


def test_a_scaler_of_ones_own_needs_no_limits_of_its_own():
    class Wish(Scaler):
        def __init__(self, wish=3):
            super().__init__()
            self.wish = wish

        def wanted(self, topology, history):
            return dict.fromkeys(topology.parents, (self.wish, "wished"))

    given_ = Wish(30)
    loop = loop_of(given_, limits=Limits(1, 10, 2))
    assert loop.plan(fill(loop), WAITING).degree == 20
    assert given_.max_degree == 8  # it is the user's


# Before anything is known.


@pytest.mark.parametrize("scaler", SCALERS)
@pytest.mark.parametrize("executors", [1, 3, 8])
def test_before_a_period_is_seen_nothing_changes(scaler, executors):
    loop = loop_of(scaler, executors)
    plan = loop.plan(1e9, BUSY)
    assert plan.executors == loop.executors == executors
    assert plan.reason == "nothing to change"
    assert not journal_of(loop, "plan")


@pytest.mark.parametrize("executors, expected", [(1, 2), (9, 6)])
def test_limits_hold_from_the_first_plan(executors, expected):
    loop = loop_of(Preventive(), executors, limits=Limits(2, 6, 2))
    plan = loop.plan(1e9, BUSY)
    assert plan.executors == loop.executors == expected
    [entry] = journal_of(loop, "plan")
    assert entry["reason"].endswith(f"{executors} -> {expected} executors")


def test_too_many_executors_have_a_reason_to_go():
    loop = loop_of(Preventive(), 9, limits=Limits(2, 6, 2))
    assert loop.plan(1e9, BUSY).reason == "words: limits, 18 -> 12"


def test_too_few_executors_have_a_reason_to_come():
    loop = loop_of(Preventive(), 1, limits=Limits(2, 6, 2))
    assert loop.plan(1e9, BUSY).reason == "nothing to change; within 2 to 6 executors"


# Words.


def test_reasons_are_in_words():
    loop = loop_of(Preventive())
    followed(loop, lambda second: 50.0 if second < 100 else 300.0, 14)
    reason = journal_of(loop, "plan")[-1]["reason"]
    assert "records/s against a capacity of" in reason
    assert reason.endswith(f"{loop.executors} executors")


def test_what_the_scaler_does_not_ask_for_has_a_reason_too():
    _, [plan] = planned(2, limits=Limits(1, 8, 2, 1e9), state_bytes=3e9)
    assert plan.executors == 3
    assert plan.reason == "nothing to change; the state needs the memory of 3"


def test_memory_is_named_whenever_it_decides():
    limits = Limits(1, 8, 2, 1e9)
    _, [plan] = planned(1, executors=2, limits=limits, state_bytes=5e9)
    assert plan.executors == 5
    assert plan.reason == "words: told so, 4 -> 1; the state needs the memory of 5"
    _, [plan] = planned(12, limits=limits, state_bytes=5e9)
    assert (plan.executors, plan.reason) == (6, "words: told so, 2 -> 12")
    _, [plan] = planned(1, limits=Limits(4, 8, 2, 1e9), state_bytes=3e9)
    assert (plan.executors, plan.reason) == (4, "words: told so, 2 -> 1; within 4 to 8 executors")


def test_the_journal_tells_what_was_seen_and_planned():
    loop, plans = planned(2, 6, 6, 3)
    assert [one.executors for one in plans] == [1, 3, 3, 2]
    seen = journal_of(loop, "observation")
    assert [one["executors"] for one in seen] == [1, 1, 3, 3]
    assert [one["query"] for one in seen] == ["words"] * 4
    assert (seen[0]["rate_per_s"], seen[0]["pending"]) == (10, 0)
    assert seen[0]["cost_ms"] == 20
    assert [one["reason"] for one in journal_of(loop, "plan")] == [
        "words: told so, 2 -> 6; 1 -> 3 executors",
        "words: told so, 6 -> 3; 3 -> 2 executors",
    ]
    assert [one["dry_run"] for one in journal_of(loop, "plan")] == [False, False]
    json.dumps(loop.journal.entries())


def test_a_plan_within_the_same_executors_is_written_too():
    loop, [plan] = planned(1)
    assert plan.executors == 1
    [entry] = journal_of(loop, "plan")
    assert entry["reason"] == "words: told so, 2 -> 1; 1 -> 1 executors"


def test_costs_that_are_not_known_are_null_in_the_journal(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    loop = loop_of(Preventive(), journal=journal)
    loop.plan(1e9, WAITING)
    [line] = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert json.loads(line)["cost_ms"] is None


def test_a_plan_tells_rate_and_what_waits():
    loop = loop_of(Preventive())
    fill(loop, periods=2)
    loop.timeline.add(Look(25.0, 12.0, 50.0, 400.0, None))
    plan = loop.plan(37.0, WAITING)
    assert plan.rate_per_s == pytest.approx((50 + 50 + 400) / 10)
    assert plan.pending == pytest.approx(400 + 7 * plan.rate_per_s)


# Dry runs, and what a plan changes.


def test_a_dry_run_changes_nothing_but_writes_plans():
    loop, plans = planned(6, 8, 2, dry_run=True)
    assert [one.executors for one in plans] == [3, 4, 1]
    assert loop.executors == 1
    assert [one.degree for one in loop._scaler.shown] == [2, 2, 2]
    entries = journal_of(loop, "plan")
    assert [one["executors"] for one in entries] == [3, 4]  # the third one would change nothing
    assert all(one["dry_run"] is True for one in entries)
    assert entries[-1]["reason"] == "words: told so, 2 -> 8; 1 -> 4 executors"
    assert [one["executors"] for one in journal_of(loop, "observation")] == [1, 1, 1]


def test_in_a_dry_run_degrees_stay_unchanged():
    loop, _ = planned(6, 8, dry_run=True)
    before, after = (one.unchanged for one in loop._scaler.shown)
    assert after == before + 1


def test_the_next_plan_starts_from_the_last_one():
    loop, _ = planned(6, 3, 3)
    assert [one.degree for one in loop._scaler.shown] == [2, 6, 3]
    assert loop.executors == 2


def test_periods_without_a_change_are_counted():
    loop, _ = planned(5, 5, 5, 2, 2)
    first, *later = (one.unchanged for one in loop._scaler.shown)
    assert later == [1, 2, 3, 1]
    assert first > 1_000


def test_other_executors_for_the_same_instances_are_no_change_to_a_scaler():
    loop = loop_of(Told([2]), limits=Limits(1, 8, 2, 1e9))
    fill(loop, state_bytes=0.0)
    loop.plan(30.0, WAITING)
    loop.timeline.add(Look(35.0, 1.0, 50.0, 0.0, None, state_bytes=3e9))
    assert loop.plan(40.0, WAITING).executors == loop.executors == 3
    assert [entry["executors"] for entry in journal_of(loop, "plan")] == [3]
    loop.plan(50.0, WAITING)
    assert loop._scaler.shown[-1].unchanged > 1_000
