"""Executors that are to be removed: the placement loop drains them, and blames no plan for it."""

import numpy as np
import pytest
from simulated_groups import (
    FOUR,
    SETTLED,
    UNKNOWN,
    Simulated,
    Told,
    even,
    journal_of,
    last_reason,
    loop_of,
    outcome_of,
    period,
    swapped,
    uneven,
    worsening,
)

from penstock.policies.placement import LocalSearch


def test_marked_executors_are_drained():
    simulated = even(4, 10)
    loop = loop_of(simulated)
    for _ in range(3):
        assert len(period(simulated, loop, marked=frozenset({"2"})).moves) <= 10
    assert "2" not in simulated.where.values()
    counts = np.unique(list(simulated.where.values()), return_counts=True)[1]
    assert counts.max() - counts.min() <= 1


def test_marked_executors_without_load_are_drained():
    simulated = Simulated([0.0] * 8, ["1"] * 8, {"1": 1, "2": 1})
    plan = period(simulated, loop_of(simulated), marked=frozenset({"1"}))
    assert list(plan.moves.values()) == ["2"] * 8


def test_marked_executors_are_drained_during_a_pause():
    simulated, loop = worsening(uneven(executors=3))
    for _ in range(4):
        period(simulated, loop)
    assert last_reason(loop).endswith("1 more pauses")
    loop.placer = LocalSearch(max_migrations=50)
    plan = period(simulated, loop, marked=frozenset({"2"}))
    assert plan.moves
    assert "2" not in simulated.where.values()


def test_all_executors_are_marked():
    simulated = even()
    loop = loop_of(simulated)
    plan = period(simulated, loop, marked=frozenset(simulated.executors))
    assert plan.moves == {}
    assert last_reason(loop) == "nothing is moved: all 2 workers are marked for removal"


def test_draining_that_has_to_be_is_not_blamed():
    """One key group can only go where it makes another executor the fullest."""
    simulated = Simulated([900.0], ["1"], FOUR)
    loop = loop_of(simulated)
    plan = period(simulated, loop, marked=frozenset({"1"}))
    assert len(plan.moves) == 1
    period(simulated, loop, marked=frozenset({"1"}))
    assert outcome_of(loop) == pytest.approx([30.0, 60.0, 60.0])
    assert "worse" not in last_reason(loop, "outcome")


def test_nothing_is_said_of_draining_when_the_executor_has_gone():
    simulated = Simulated([900.0], ["1"], FOUR)
    loop = loop_of(simulated)
    period(simulated, loop, marked=frozenset({"1"}))
    del simulated.executors["1"]
    period(simulated, loop)
    assert [entry["reason"] for entry in journal_of(loop, "outcome")] == [UNKNOWN]


def test_draining_is_not_blamed_for_what_it_did_not_promise_either():
    def drained(placement):
        return np.where(placement == 2, 1, swapped(placement))

    simulated = uneven()
    simulated.executors["3"] = 1
    simulated.where[0, 40], simulated.busy_ms[40] = "3", 1.0
    loop = loop_of(simulated, Told(drained))
    for batches in (SETTLED, 30):
        plan = period(simulated, loop, batches, marked=frozenset({"3"}))
        assert len(plan.moves) >= 2
    before, expected, achieved = outcome_of(loop)
    assert achieved > 1.2 * max(before, expected) + 1
    assert "worse" not in last_reason(loop, "outcome")


def test_draining_where_nothing_is_done_is_judged_as_well():
    simulated = Simulated([0.0] * 8, ["1"] * 8, {"1": 1, "2": 1})
    loop = loop_of(simulated)
    period(simulated, loop, marked=frozenset({"1"}))
    period(simulated, loop)
    assert outcome_of(loop) == [0.0, 0.0, 0.0]
    assert "worse" not in last_reason(loop, "outcome")
