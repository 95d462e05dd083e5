"""The search: every step is the best one, against a plain twin; the bound holds, by brute force."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.policies.placement import Cluster, LocalSearch, Milp
from penstock.policies.placement.bounds import Movable, _needed, lower_bound
from penstock.policies.placement.descent import descend
from penstock.policies.placement.local_search import search
from penstock.policies.placement.problem import Problem

WITHIN, DRAINS, FREE = 1e-3, 1e-6, 1 / 3


@st.composite
def problems(draw, most_units=9, most_workers=4, removals=True, whole_prices=False):
    """Small problems with everything that can be different."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    units, workers = draw(st.integers(1, most_units)), draw(st.integers(1, most_workers))
    removed = rng.random(workers) < (0.3 if removals else 0)
    removed[rng.integers(workers)] = False
    resources = draw(st.integers(1, 2))
    cluster = Cluster(
        load=rng.choice([0.0, 5.0, 8.0, 13.0, 30.0], (units, resources)) + rng.random((units, 1)),
        placement=rng.integers(0, workers, units),
        capacity=rng.choice([0.5, 1.0, 2.0], workers),
        removed=removed,
    )
    equal = whole_prices or draw(st.booleans())
    price = np.ones(units) if equal else rng.uniform(0.2, 3.0, units)
    return Problem.of(cluster, price, draw(st.sampled_from([1.0, 2.0, 3.5, np.inf])))


def badness(problem, where, threshold):
    """The search's measure, computed from scratch."""
    deviations = np.abs(problem.deviations(where))
    bad = np.maximum(0, deviations - threshold) ** 2 + WITHIN * deviations**2
    waiting = DRAINS * (~problem.live[where]).sum()
    return float((problem.capacity * bad)[problem.live].sum()) + waiting


def allowed(problem, where):
    used = np.zeros_like(problem.room)
    np.add.at(used, where, problem.others)
    return problem.spent(where) <= problem.budget + 1e-9 and (used <= problem.room + 1e-9).all()


def steps_of(problem, where):
    """All moves and swaps, as placements."""
    live, units = np.flatnonzero(problem.live), range(where.size)
    for unit, target in product(units, live):
        if target != where[unit]:
            after = where.copy()
            after[unit] = target
            yield after
    for one, other in product(units, units):
        if one < other and where[one] != where[other] and problem.live[where[[one, other]]].all():
            after = where.copy()
            after[[one, other]] = where[[other, one]]
            yield after


def score(problem, where, after, threshold):
    """What the search would give for a step; nothing if it is not allowed, or the wrong one."""
    before, then = np.abs(problem.deviations(where)), np.abs(problem.deviations(after))
    worst = int(np.argmax(before))
    changed = where != after
    touched = np.unique(np.concatenate((where[changed], after[changed])))
    if worst not in touched or (then[touched] >= before[worst] - 1e-9).any():
        return 0.0
    if not allowed(problem, after):
        return 0.0
    gain = badness(problem, where, threshold) - badness(problem, after, threshold)
    extra = problem.spent(after) - problem.spent(where)
    return gain / (FREE * problem.price.mean() + max(0.0, extra))


def one_step(problem, where, threshold, steps=1):
    after = where.copy()
    return after, descend(problem, threshold, steps, after)


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from([0.0, 1.0, 6.0]))
def test_every_step_is_the_best_one(problem, threshold):
    where = problem.home.copy()
    for _ in range(6):
        after, taken = one_step(problem, where, threshold)
        scores = [score(problem, where, one, threshold) for one in steps_of(problem, where)]
        best = max(scores, default=0.0)
        if problem.distance(where) <= threshold:
            assert taken == 0
            return
        if not taken:
            assert best <= 1e-6
            return
        assert score(problem, where, after, threshold) == pytest.approx(best, rel=1e-6, abs=1e-6)
        where = after


@settings(max_examples=150, deadline=None)
@given(problems())
def test_a_search_keeps_to_the_rules(problem):
    where = search(problem, 0.01, 5.0)
    assert allowed(problem, where)
    moved = where != problem.home
    assert problem.live[where[moved]].all()
    assert lower_bound(problem) <= problem.distance(where) + 1e-6
    if problem.live[problem.home].all():
        assert problem.distance(where) <= problem.distance(problem.home) + 1e-9


def placements(problem):
    """All placements that are allowed."""
    live = np.flatnonzero(problem.live)
    choices = [sorted({*live, home}) for home in problem.home]
    for choice in product(*choices):
        where = np.array(choice)
        if allowed(problem, where):
            yield where


@settings(max_examples=60, deadline=None)
@given(problems(most_units=6, most_workers=3))
def test_no_placement_beats_the_bound(problem):
    best = min(problem.distance(where) for where in placements(problem))
    assert lower_bound(problem) <= best + 1e-6


@settings(max_examples=25, deadline=None)
@given(problems(most_units=6, most_workers=3, removals=False, whole_prices=True))
def test_the_exact_model_is_exact(problem):
    from penstock.policies.placement.highs import solve

    best = min(problem.distance(where) for where in placements(problem))
    known = search(problem, 0.0, 5.0)
    found, note = solve(
        problem, known, enough=lower_bound(problem), max_nodes=5_000, time_limit_s=10.0
    )
    assert note == "proven to be best"
    assert allowed(problem, found)
    assert problem.distance(found) == pytest.approx(best, abs=2e-3 + 1e-3 * best)


def test_the_search_is_near_the_exact_model():
    # Few and coarse key groups, where a search gets stuck most easily.
    distances = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        load, placement = rng.exponential(10.0, 14), rng.integers(0, 3, 14)
        cluster = Cluster(load, placement, rng.choice([1.0, 2.0], 3))
        budget = (1, 2, 4)[seed % 3]
        searched, exact = LocalSearch(budget).plan(cluster), Milp(budget).plan(cluster)
        assert exact.distance_after <= searched.distance_after + 1e-9
        distances.append((searched.distance_after, exact.distance_after))
    searched, exact = np.mean(distances, axis=0)
    assert searched <= 1.1 * exact


def plain_needed(problem, distance):
    """The bound's measure for equal prices, from the text."""
    deviations, load = problem.deviations(problem.home), problem.load
    given = got = touched = 0.0
    for worker in np.flatnonzero(problem.live):
        capacity = problem.capacity[worker]
        missing = (abs(deviations[worker]) - distance) * capacity
        if missing <= 1e-9:
            continue
        over = bool(deviations[worker] > 0)
        own = load[problem.home == worker] if over else load
        sums = np.cumsum(np.sort(own)[::-1])
        enough = np.flatnonzero(sums >= missing - 1e-9)
        count = enough[0] + 1 if enough.size else np.inf
        if over:
            given += count
        else:
            got += count
        fits = (own >= missing - 1e-9) & (own <= missing + 2 * distance * capacity + 1e-9)
        touched += 2 if count == 1 and not fits.any() else count
    return max(given, got, touched / 2)


@settings(max_examples=80, deadline=None)
@given(problems(whole_prices=True), st.floats(0, 40))
def test_what_the_bound_needs(problem, distance):
    worth = np.argsort(-problem.load, kind="stable")
    by_worker = worth[np.argsort(problem.home[worth], kind="stable")]
    starts = np.searchsorted(problem.home[by_worker], np.arange(problem.capacity.size + 1))
    deviations = problem.deviations(problem.home)
    movable = Movable(anywhere=worth, by_worker=by_worker, starts=starts, equal=True)
    found = _needed(problem, movable, deviations, distance)
    expected = plain_needed(problem, distance)
    assert found == expected or (np.isinf(found) and np.isinf(expected))
