"""What shedding is for: the target is held, and little is lost. Small, with fixed seeds."""

from functools import cache

import pytest

from penstock.experiments.las import Case, phases
from penstock.experiments.las_series_claims import LIMIT_MS as SERIES_LIMIT_MS
from penstock.policies.grouping import RoundRobin
from penstock.policies.shedding import FullKnowledge, LoadAware, average
from penstock.sim import simulate

SEEDS = range(3)
LIMIT_MS = 6.4


@cache
def results(seed):
    """All shedders on one stream, a quarter of which is too much."""
    return Case(under=0.25).results(seed, {}, warm=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_las_holds_the_target(seed):
    assert 0.97 <= results(seed)["las"].mean_waiting_ms() / LIMIT_MS <= 1.05


@pytest.mark.parametrize("seed", SEEDS)
def test_las_drops_little_more_than_full_knowledge(seed):
    dropped = {name: result.dropped_ratio() for name, result in results(seed).items()}
    assert dropped["las"] <= dropped["full_knowledge"] + 0.025


@pytest.mark.parametrize("seed", SEEDS)
def test_las_cheap_first_holds_the_target_and_drops_less(seed):
    cheap = results(seed)["las_cheap_first"]
    assert cheap.dropped_ratio() <= 0.22
    assert cheap.dropped_ratio() < results(seed)["full_knowledge"].dropped_ratio()
    assert cheap.mean_waiting_ms() <= 1.1 * LIMIT_MS


@pytest.mark.parametrize("seed", SEEDS)
def test_full_knowledge_sits_on_the_target(seed):
    found = results(seed)["full_knowledge"]
    assert found.mean_waiting_ms() == pytest.approx(LIMIT_MS, abs=0.01)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_does_not_know_costs_is_far_off(seed):
    for name in ("random_drop", "mean_cost"):
        assert results(seed)[name].mean_waiting_ms() > 2 * LIMIT_MS


@pytest.mark.parametrize("seed", SEEDS)
def test_las_asks_seldom(seed):
    assert results(seed)["las"].messages_per_100 <= 3.5


def test_las_is_back_at_the_target_after_costs_have_doubled():
    stream, slowdowns = phases(0)
    shedder = LoadAware(average(SERIES_LIMIT_MS))
    result = simulate(RoundRobin(1), stream, slowdowns=slowdowns, shedder=shedder)
    knows = FullKnowledge(average(SERIES_LIMIT_MS), stream.exact_costs())
    ideal = simulate(RoundRobin(1), stream, slowdowns=slowdowns, shedder=knows)
    # What waits when costs double is late for all; nobody could shed it any more.
    late, at_best = (one.mean_waiting_ms(100_000, 104_000) for one in (result, ideal))
    assert at_best < late <= 1.1 * at_best
    assert result.mean_waiting_ms(104_000, 108_000) <= SERIES_LIMIT_MS
    assert result.mean_waiting_ms(112_000, 120_000) == pytest.approx(SERIES_LIMIT_MS, rel=0.03)
