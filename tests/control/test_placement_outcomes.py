"""Outcomes of placement plans: what they have achieved, who is to blame, and pauses."""

import numpy as np
import pytest
from simulated_groups import (
    FOUR,
    SETTLED,
    UNKNOWN,
    Simulated,
    Told,
    even,
    gathered,
    journal_of,
    last_reason,
    loop_of,
    moved_in,
    outcome_of,
    period,
    uneven,
    worsening,
    zipf,
)

from penstock.policies.placement import LocalSearch


def test_a_plan_is_judged_when_batches_have_settled():
    simulated = Simulated(zipf(), ["1"] * 40, FOUR)
    loop = loop_of(simulated)
    period(simulated, loop)
    for _ in range(SETTLED - 1):
        assert loop.plan(FOUR).moves == {}
        assert period(simulated, loop, batches=1).moves == {}
        assert "still unknown" in last_reason(loop)
        assert not journal_of(loop, "outcome")
    assert period(simulated, loop, batches=1).moves
    assert len(journal_of(loop, "outcome")) == 1


def test_a_plan_that_holds_what_it_promised():
    simulated = Simulated([100.0] * 8, ["1"] * 8, {"1": 1, "2": 1})
    loop = loop_of(simulated)
    period(simulated, loop)
    period(simulated, loop)
    [outcome] = journal_of(loop, "outcome")
    found = [outcome[key] for key in ("before", "expected", "achieved")]
    assert found == pytest.approx([40.0, 0.0, 0.0])
    assert outcome["reason"] == "as planned, or nearly so"
    assert outcome["query"] == "words"


def test_an_outcome_is_written_once():
    simulated = Simulated([100.0] * 8, ["1"] * 8, {"1": 1, "2": 1})
    loop = loop_of(simulated)
    for _ in range(5):
        period(simulated, loop)
    assert len(journal_of(loop, "outcome")) == 1


def test_plans_without_moves_need_no_outcome():
    simulated = even()
    loop = loop_of(simulated)
    for _ in range(3):
        period(simulated, loop)
    assert not journal_of(loop, "outcome")


def test_a_plan_that_made_things_worse_is_noticed():
    simulated, loop = worsening()
    assert len(period(simulated, loop).moves) == 2
    paused = period(simulated, loop, batches=25)
    assert paused.moves == {}
    assert "made things worse" in paused.reason
    [outcome] = journal_of(loop, "outcome")
    assert outcome_of(loop) == pytest.approx([10.0, 20.0, 30.0], abs=0.01)
    assert outcome["reason"] == "it made things worse: a pause follows"
    assert len(period(simulated, loop).moves) == 2


@pytest.mark.parametrize(
    "distance, worse, noticed",
    [(2.0, 1.1, False), (2.0, 1.3, True), (60.0, 6.8, False), (60.0, 7.2, True)],
)
def test_a_tenth_and_a_point_more_are_no_reason(distance, worse, noticed):
    simulated, loop = worsening(uneven(distance, worse))
    period(simulated, loop)
    period(simulated, loop, batches=30)
    wanted = [distance - worse, distance, distance + worse]
    assert outcome_of(loop) == pytest.approx(wanted, abs=0.01)
    assert ("worse" in last_reason(loop, "outcome")) == noticed


@pytest.mark.parametrize("grows, noticed", [(15.0, True), (25.0, False)])
def test_a_tenth_more_than_without_the_plan_is_no_reason(grows, noticed):
    """A key group with much more to do than it had is a burden wherever it is."""
    simulated = even()
    simulated.grows = {"1": grows}
    loop = loop_of(simulated, Told(gathered))
    period(simulated, loop)
    period(simulated, loop, batches=30)
    wanted = [5 * (grows - 1), 10.0, 5 * (grows + 1)]
    assert outcome_of(loop) == pytest.approx(wanted, abs=0.1)
    assert ("worse" in last_reason(loop, "outcome")) == noticed


def test_what_was_promised_is_no_fault():
    simulated = even()
    loop = loop_of(simulated, Told(gathered))
    assert moved_in(5, simulated, loop) == [True] * 5
    assert outcome_of(loop) == pytest.approx([30.0, 40.0, 40.0])
    assert not any("worse" in entry["reason"] for entry in journal_of(loop, "outcome"))


def test_a_plan_that_holds_less_than_it_promised_but_helps_is_not_blamed():
    simulated = Simulated([100.0] * 8, ["1"] * 8, {"1": 1, "2": 1}, grows={"2": 2.0})
    loop = loop_of(simulated)
    period(simulated, loop)
    period(simulated, loop, batches=30)
    assert outcome_of(loop) == pytest.approx([60.0, 0.0, 20.0], abs=0.01)
    assert last_reason(loop, "outcome") == "as planned, or nearly so"


def test_what_was_promised_is_more_when_there_is_more_to_do():
    simulated = even()
    loop = loop_of(simulated, Told(gathered))
    period(simulated, loop)
    simulated.busy_ms = dict.fromkeys(simulated.busy_ms, 1_000.0)
    assert period(simulated, loop, batches=30).moves
    assert outcome_of(loop) == pytest.approx([0.0, 10.0, 100.0], abs=0.01)


def test_what_was_promised_is_less_when_there_is_less_to_do():
    """Half of the work, but the distance is the same."""
    simulated = even()
    loop = loop_of(simulated, Told(gathered))
    [group] = period(simulated, loop).moves
    simulated.busy_ms = dict.fromkeys(simulated.busy_ms, 50.0)
    simulated.busy_ms[group[1]] = 150.0
    assert not period(simulated, loop, batches=30).moves
    assert outcome_of(loop) == pytest.approx([5.0, 10.0, 10.0], abs=0.01)


def test_nothing_is_said_of_a_plan_when_all_executors_are_marked():
    simulated, loop = worsening()
    period(simulated, loop)
    period(simulated, loop, marked=frozenset(simulated.executors))
    [outcome] = journal_of(loop, "outcome")
    assert outcome["reason"] == UNKNOWN
    assert "achieved" not in outcome


@pytest.mark.parametrize("batches, known", [(1, False), (2, True)])
def test_nothing_is_said_of_a_plan_when_there_are_new_key_groups(batches, known):
    """Not even when their loads are known: they have no old place."""
    simulated, loop = worsening()
    period(simulated, loop)
    simulated.run()
    simulated.where[0, 40], simulated.busy_ms[40] = "1", 100.0
    simulated.run(batches)
    assert bool(loop.plan(simulated.executors).moves) == known
    assert [entry["reason"] for entry in journal_of(loop, "outcome")] == [UNKNOWN]


def test_nothing_is_said_of_a_plan_when_loads_are_not_known():
    simulated = even()
    loop = loop_of(simulated, Told(gathered))
    period(simulated, loop)
    simulated.run()
    del simulated.groups._busy[0, 7]
    assert loop.plan(simulated.executors).moves == {}
    said = [entry["reason"] for entry in journal_of(loop, "outcome")]
    assert said == ["loads are unknown: the plan cannot be judged"]


def test_pauses_do_not_change_when_nothing_can_be_said():
    simulated, loop = worsening()
    assert moved_in(6, simulated, loop) == [True, False, True, False, False, True]
    simulated.where[0, 40], simulated.busy_ms[40] = "1", 100.0
    assert moved_in(1, simulated, loop) == [True]
    assert last_reason(loop, "outcome") == UNKNOWN
    assert moved_in(6, simulated, loop) == [False] * 4 + [True, False]


def test_pauses_double_up_to_16_and_end_when_a_plan_was_good():
    simulated, loop = worsening()
    moved = moved_in(56, simulated, loop)
    gaps = np.diff(np.flatnonzero(moved)) - 1
    assert gaps.tolist() == [1, 2, 4, 8, 16, 16]
    grows, simulated.grows = simulated.grows, {}
    while not period(simulated, loop).moves:
        pass
    simulated.grows = grows
    assert period(simulated, loop).moves  # the good one is known, and no pause follows
    assert last_reason(loop, "outcome") == "as planned, or nearly so"
    assert moved_in(5, simulated, loop) == [False, True, False, False, True]


def test_a_pause_says_how_long_it_is():
    simulated, loop = worsening()
    reasons = [period(simulated, loop).reason for _ in range(9)]
    paused = [one for one in reasons if one.endswith("more pauses")]
    assert [int(one.split()[-3]) for one in paused] == [0, 1, 0, 3, 2, 1]


def test_what_loading_state_takes_is_not_what_a_plan_has_achieved():
    simulated = Simulated([10.0] * 8, ["1"] * 8, {"1": 1, "2": 1})
    loop = loop_of(simulated)
    period(simulated, loop)
    period(simulated, loop)
    assert journal_of(loop, "outcome")[0]["achieved"] == pytest.approx(0.0, abs=1e-6)


def test_moves_that_were_made_late_are_judged_late():
    """Hints race with tasks: key groups may come batches after the plan."""
    simulated, loop = worsening()
    simulated.run()
    plan = loop.plan(simulated.executors)
    simulated.run(SETTLED + 3)
    simulated.follow(plan)
    simulated.run(1)
    loop.carried_out()
    for _ in range(SETTLED):
        assert loop.plan(simulated.executors).moves == {}
        assert "still unknown" in last_reason(loop)
        assert not journal_of(loop, "outcome")
        simulated.run(1)
    assert loop.plan(simulated.executors).moves == {}
    assert "worse" in last_reason(loop, "outcome")


def test_moves_that_were_given_up_are_judged_too():
    simulated, loop = worsening()
    simulated.run()
    assert loop.plan(simulated.executors).moves
    simulated.run()
    loop.carried_out()
    simulated.run()
    assert loop.plan(simulated.executors).moves
    assert outcome_of(loop) == pytest.approx([20.0, 20.0, 20.0])
    assert "worse" not in last_reason(loop, "outcome")


def test_nothing_was_carried_out():
    simulated = Simulated([100.0] * 8, ["1"] * 8, {"1": 1, "2": 1})
    loop = loop_of(simulated)
    loop.carried_out()
    simulated.run()
    loop.carried_out()
    assert loop.plan(simulated.executors).moves  # there is nothing to wait for
    assert not journal_of(loop, "outcome")


def test_a_new_executor_is_not_the_fault_of_the_last_plan():
    simulated = Simulated([100.0] * 12, ["1"] * 7 + ["2"] * 5, {"1": 1, "2": 1})
    loop = loop_of(simulated)
    assert len(period(simulated, loop).moves) == 1
    simulated.executors["3"] = 1
    assert len(period(simulated, loop).moves) == 4
    assert "worse" not in last_reason(loop, "outcome")


def test_a_plan_is_blamed_beside_a_new_executor_as_well():
    simulated = uneven(200.0)
    simulated.grows = {"1": 9.0}
    loop = loop_of(simulated, Told(gathered))
    period(simulated, loop)
    simulated.executors["3"] = 1
    assert period(simulated, loop, batches=30).moves == {}
    assert outcome_of(loop) == pytest.approx([920 / 3, 210.0, 1190 / 3], abs=0.01)
    assert "worse" in last_reason(loop, "outcome")


def test_an_executor_that_vanished_is_not_the_fault_of_the_last_plan():
    three = {"1": 1, "2": 1, "3": 1}
    simulated = Simulated([100.0] * 12, ["1"] * 5 + ["2"] * 4 + ["3"] * 3, three)
    loop = loop_of(simulated)
    assert len(period(simulated, loop).moves) == 1
    del simulated.executors["3"]
    simulated.where |= {g: "1" for g, place in simulated.where.items() if place == "3"}
    assert len(period(simulated, loop).moves) == 2
    assert last_reason(loop, "outcome") == UNKNOWN


def test_a_plan_is_not_praised_when_an_executor_vanished_just_now():
    """No batch has ended since: the only key group that it moved is nowhere."""
    three = {"1": 1, "2": 1, "3": 1}
    simulated = Simulated([100.0] * 12, ["1"] * 5 + ["2"] * 4 + ["3"] * 3, three)
    loop = loop_of(simulated)
    assert list(period(simulated, loop).moves.values()) == ["3"]
    simulated.run()
    loop.plan({"1": 1, "2": 1})
    assert last_reason(loop, "outcome") == UNKNOWN


def test_more_to_do_is_not_the_fault_of_the_last_plan():
    """Ten times the load in the same proportions: the plan has halved the imbalance."""
    simulated = Simulated([20.0] * 8, ["1"] * 8, {"1": 1, "2": 1})
    loop = loop_of(simulated, LocalSearch(max_migrations=2))
    assert len(period(simulated, loop).moves) == 2
    simulated.busy_ms = dict.fromkeys(simulated.busy_ms, 200.0)
    assert len(period(simulated, loop, batches=20).moves) == 2
    assert "worse" not in last_reason(loop, "outcome")


def test_a_plan_is_not_praised_when_its_key_groups_are_gone():
    simulated = even()
    loop = loop_of(simulated, Told(gathered))
    period(simulated, loop)
    simulated.run()
    loop.plan({"8": 1, "9": 1})
    assert [entry["reason"] for entry in journal_of(loop, "outcome")] == [UNKNOWN]
