"""The closed loop of placement: balance, budgets, and loads that are unknown."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_groups import FOUR, Simulated, even, journal_of, last_reason, loop_of, period, zipf

from penstock.policies.placement import Flux, LocalSearch

# Balance.


@pytest.mark.parametrize("placer", [LocalSearch(10), Flux(10)], ids=["local_search", "flux"])
@pytest.mark.parametrize(
    "where",
    [["1"] * 40, list("1234") * 10, ["1"] * 20 + ["2"] * 20, list("4321") * 10],
    ids=["one", "hashed", "two", "turned"],
)
def test_five_plans_balance_40_zipf_groups(where, placer):
    simulated = Simulated(zipf(), where, FOUR)
    loop = loop_of(simulated, placer)
    plans = [period(simulated, loop) for _ in range(5)]
    assert all(len(plan.moves) <= 10 for plan in plans)
    assert simulated.excess() < 0.1
    assert not any("worse" in entry["reason"] for entry in journal_of(loop, "outcome"))


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(0, 10))
def test_five_plans_balance_wherever_40_zipf_groups_begin_and_noise_does_not_matter(seed, percent):
    random = np.random.default_rng(seed)
    where = random.choice(list(FOUR), 40).tolist()
    simulated = Simulated(zipf(), where, FOUR, noise=percent / 100, seed=seed)
    loop = loop_of(simulated)
    for _ in range(5):
        assert len(period(simulated, loop).moves) <= 10
    assert simulated.excess() < 0.1


def test_a_balanced_cluster_is_left_alone():
    simulated = even(4, 10)
    loop = loop_of(simulated)
    assert [dict(period(simulated, loop).moves) for _ in range(5)] == [{}] * 5
    assert all("nothing to move" in entry["reason"] for entry in journal_of(loop, "plan"))
    assert not journal_of(loop, "outcome")


def test_plans_come_to_rest():
    simulated = Simulated(zipf(), ["1"] * 40, FOUR)
    loop = loop_of(simulated, LocalSearch(max_migrations=10, goal=2.0))
    for _ in range(8):
        period(simulated, loop)
    assert [dict(period(simulated, loop).moves) for _ in range(5)] == [{}] * 5


def test_executors_with_more_slots_get_more():
    simulated = Simulated([50.0] * 40, ["1"] * 40, {"1": 1, "2": 3})
    loop = loop_of(simulated)
    for _ in range(5):
        period(simulated, loop)
    assert list(simulated.where.values()).count("2") == 30


def test_a_slow_executor_gets_less():
    simulated = Simulated([40.0] * 60, list("1234") * 15, FOUR, slow={"4": 2.0})
    loop = loop_of(simulated)
    for _ in range(10):
        period(simulated, loop)
    assert list(simulated.where.values()).count("4") < 11
    assert simulated.excess() < 0.1


def test_a_new_executor_is_filled():
    simulated = even(3, 12)
    loop = loop_of(simulated)
    period(simulated, loop)
    simulated.executors["new"] = 1
    period(simulated, loop)
    assert list(simulated.where.values()).count("new") == 9
    assert simulated.excess() < 0.01


def test_executors_that_vanish_between_plans():
    simulated = Simulated(zipf(), ["1"] * 40, FOUR)
    loop = loop_of(simulated)
    period(simulated, loop)
    simulated.lose("2")
    for _ in range(8):
        period(simulated, loop)
    assert set(simulated.where.values()) == {"1", "3", "4"}
    assert simulated.excess() < 0.1


def test_key_groups_of_a_vanished_executor_that_have_not_come_back_do_not_move():
    simulated = Simulated([100.0] * 12, ["1"] * 6 + ["2"] * 6, {"1": 1, "2": 1})
    simulated.run()
    plan = loop_of(simulated).plan({"1": 1, "3": 1})
    assert len(plan.moves) == 3
    assert set(plan.moves) <= {(0, i) for i in range(6)}
    assert set(plan.moves.values()) == {"3"}


def test_all_executors_are_others_now():
    simulated = even()
    simulated.run()
    loop = loop_of(simulated)
    assert loop.plan({"8": 1, "9": 1}).moves == {}
    assert last_reason(loop) == "nothing is moved: there are no key groups"


# Budgets.


@pytest.mark.parametrize("most", [1, 3, 7])
def test_no_plan_moves_more_than_it_may(most):
    simulated = Simulated(zipf(), ["1"] * 40, FOUR)
    loop = loop_of(simulated, LocalSearch(max_migrations=most))
    moved = [len(period(simulated, loop).moves) for _ in range(10)]
    assert max(moved) == most


def test_migration_costs_limit_a_plan():
    simulated = Simulated([100.0] * 8, ["1"] * 8, {"1": 1, "2": 1})
    cost = {group: 100.0 if group[1] < 6 else 10.0 for group in simulated.where}
    loop = loop_of(simulated, LocalSearch(max_cost=130.0))
    plan = period(simulated, loop, migration_cost=cost)
    assert len(plan.moves) == 3
    assert sum(cost[group] for group in plan.moves) == 120.0


@pytest.mark.parametrize("budget", [{"max_migrations": 0}, {"max_cost": 0.0}], ids=str)
def test_nothing_is_moved_for_nothing(budget):
    simulated = Simulated([100.0] * 8, ["1"] * 8, {"1": 1, "2": 1})
    loop = loop_of(simulated, LocalSearch(**budget))
    plan = period(simulated, loop)
    assert plan.moves == {}
    assert plan.distance_before == pytest.approx(40.0)
    assert last_reason(loop) == f"nothing is moved: the budget is 0 ({next(iter(budget))})"


# What is unknown.


def test_there_are_no_executors():
    simulated = even()
    simulated.run()
    loop = loop_of(simulated)
    plan = loop.plan({})
    assert plan.moves == {}
    assert plan.reason == last_reason(loop) == "nothing is moved: there are no executors"
    assert plan.obstacle == "there are no executors"


def test_no_batch_has_run_yet():
    loop = loop_of(even())
    assert loop.plan(FOUR).moves == {}
    assert last_reason(loop) == "nothing is moved: there are no key groups"


def test_nothing_is_moved_while_loads_are_not_known():
    simulated = Simulated([100.0] * 8, ["1"] * 8, {"1": 1, "2": 1})
    loop = loop_of(simulated)
    plan = period(simulated, loop, batches=1)
    assert plan.moves == {}
    assert np.isnan(plan.distance_before)
    [entry] = journal_of(loop, "plan")
    assert "the load of 8 key groups is unknown" in entry["reason"]
    assert entry["distance"] is None
    assert period(simulated, loop, batches=1).moves


def test_nothing_is_moved_where_nothing_is_done():
    simulated = Simulated([0.0] * 8, ["1"] * 8, {"1": 1, "2": 1})
    loop = loop_of(simulated)
    assert period(simulated, loop).moves == {}
    assert last_reason(loop) == "nothing is moved: all loads are 0"
