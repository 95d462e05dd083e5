"""Collocation: graphs and how they are cut, ALBIC's steps, and COLA."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.placement import Albic, Cluster, Cola, LocalSearch, Traffic
from penstock.policies.placement.albic import _heavy_pairs
from penstock.policies.placement.collocation import Collocation
from penstock.policies.placement.partitioning import connected, cut
from penstock.policies.placement.problem import Problem
from penstock.sim import applied, chain_traffic, even_cluster, fluctuated


def plain_connected(count, pairs):
    sets = [{i} for i in range(count)]
    for a, b in pairs:
        both = next(s for s in sets if a in s) | next(s for s in sets if b in s)
        sets = [s for s in sets if not s & both] + [both]
    return {frozenset(s) for s in sets}


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=15),
        )
    )
)
def test_sets_of_pairs(case):
    count, pairs = case
    one, other = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    labels = connected(count, one, other)
    found = {frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)}
    assert found == plain_connected(count, pairs)
    assert labels.max() == np.unique(labels).size - 1


def test_a_cut_where_it_hurts_least():
    # Two triangles and a thin edge between them.
    source, target = np.array([[0, 1], [1, 2], [2, 0], [3, 4], [4, 5], [5, 3], [2, 3]]).T
    edges = Traffic(source, target, [5, 5, 5, 5, 5, 5, 1])
    labels = cut(np.ones(6), edges, np.ones(2), seed=0)
    assert len(set(labels[:3])) == len(set(labels[3:])) == 1
    assert labels[0] != labels[3]


@pytest.mark.parametrize(
    "edges", [Traffic(), Traffic([0], [1], [0.0]), Traffic([0, 1], [0, 1], [1.0, 1.0])]
)
def test_a_graph_without_edges_is_divided_by_weight(edges):
    labels = cut(np.array([5.0, 3, 3, 2, 1, 0]), edges, np.array([1.0, 1.0]), seed=0)
    weights = np.bincount(labels, weights=[5, 3, 3, 2, 1, 0])
    assert weights.tolist() == [7, 7]


def test_parts_get_their_shares():
    labels = cut(np.ones(90), Traffic(), np.array([1.0, 2.0, 6.0]), seed=0)
    assert np.bincount(labels).tolist() == [10, 20, 60]


def test_as_many_parts_as_vertices_or_more():
    assert sorted(cut(np.ones(3), Traffic([0], [1], [1.0]), np.ones(3), 0)) == [0, 1, 2]
    assert sorted(cut(np.ones(2), Traffic(), np.ones(5), 0)) == [0, 1]
    assert cut(np.ones(2), Traffic(), np.ones(1), 0).tolist() == [0, 0]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1_000), st.integers(2, 5))
def test_every_part_has_something(seed, parts):
    rng = np.random.default_rng(seed)
    edges = Traffic(*rng.integers(0, 12, (2, 8)), rng.random(8))
    labels = cut(rng.choice([0.0, 1.0, 50.0], 12), edges, np.ones(parts), seed)
    assert set(labels) == set(range(parts))


# Scores.


def two_operators(traffic, placement=(0, 0, 0, 1, 1, 1), **more):
    given = {"load": [10] * 6, "capacity": [1, 1], "operator": [0, 0, 0, 1, 1, 1]}
    return Cluster(placement=list(placement), traffic=traffic, **(given | more))


def test_pairs_that_stand_out():
    # 0 sends 6 in all, 2 on average to three key groups: 3 is just 1.5 times as much.
    traffic = Traffic([0, 0, 0, 1, 2], [3, 4, 5, 4, 5], [3, 2.9, 0.1, 7, 0])
    cluster = two_operators(traffic)
    kept = _heavy_pairs(cluster, 1.5)
    assert list(zip(kept.source, kept.target, strict=True)) == [(1, 4)]
    kept = _heavy_pairs(cluster, 1.4)
    assert list(zip(kept.source, kept.target, strict=True)) == [(0, 3), (0, 4), (1, 4)]


def test_even_traffic_has_no_pairs():
    source, target = np.divmod(np.arange(9), 3)
    traffic = Traffic(source, target + 3, np.ones(9))
    cluster = two_operators(traffic, placement=(0, 0, 0, 0, 1, 1))
    assert len(_heavy_pairs(cluster, 1.5)) == 0
    assert Albic(2).plan(cluster).moves == LocalSearch(2).plan(cluster).moves


# Pairs.


def one_to_one(*pairs):
    source, target = zip(*pairs, strict=True)
    return Traffic(source, target, np.ones(len(pairs)))


def collocation(placement, units, **more):
    cluster = two_operators(Traffic(), placement, **more)
    return Collocation(Problem.of(cluster, np.ones(6), 10.0), np.array(units))


def option(state, one, other):
    found = state.options(np.array([one]), np.array([other]))
    return bool(found.possible[0]), int(found.to[0]), float(found.price[0])


def test_two_single_key_groups_go_to_the_less_loaded_worker():
    state = collocation((0, 0, 0, 0, 1, 1), range(6))
    assert option(state, 0, 5) == (True, 1, 1)


def test_a_single_key_group_goes_to_the_unit():
    state = collocation((0, 0, 0, 0, 1, 1), [0, 0, 2, 3, 4, 5])
    assert option(state, 1, 5) == (True, 0, 1)


def test_two_units_go_to_the_less_loaded_worker():
    state = collocation((0, 0, 0, 0, 1, 1), [0, 0, 0, 3, 4, 4])
    assert option(state, 1, 5) == (True, 1, 3)


def test_never_to_a_worker_that_is_removed():
    state = collocation((0, 0, 0, 0, 1, 1), range(6), removed=[False, True])
    assert option(state, 0, 5) == (True, 0, 1)
    state = collocation((0, 0, 1, 1, 1, 1), range(6), removed=[True, True])
    assert option(state, 0, 5)[0] is False


def test_what_was_brought_somewhere_stays_there():
    state = collocation((0, 0, 0, 1, 1, 1), range(6))
    assert state.bring(0, 3, 1)
    assert state.where.tolist() == [1, 0, 0, 1, 1, 1]
    assert option(state, 1, 0) == (True, 1, 1)
    assert state.bring(1, 5, 0)
    assert option(state, 0, 5)[0] is False


def test_no_pair_where_there_is_no_room():
    load = np.array([[10.0, 60.0]] * 6)
    load[:, 0] = 100
    cluster = Cluster(load, [0, 1, 2, 3, 4, 4], np.ones(5))
    state = Collocation(Problem.of(cluster, np.ones(6), 10.0), np.arange(6))
    assert not state.bring(0, 1, 1)
    assert state.where.tolist() == [0, 1, 2, 3, 4, 4]


# Plans.


def test_several_pairs_within_half_of_the_budget():
    traffic = one_to_one((0, 3), (1, 4), (2, 5))
    plan = Albic(4).plan(two_operators(traffic))
    assert plan.collocation_after == pytest.approx(2 / 3)
    assert plan.distance_after == 0
    assert len(plan.moves) <= 4


def test_one_pair_a_plan_as_published():
    traffic = Traffic([0, 1, 2], [3, 4, 5], [1, 3, 2])
    plan = Albic.as_published(max_migrations=6).plan(two_operators(traffic))
    assert plan.placement[1] == plan.placement[4]
    assert plan.placement[2] != plan.placement[5]
    with pytest.raises(PenstockError, match="pairs must be left out"):
        Albic.as_published(pairs=2)


def test_units_stay_together_when_load_is_balanced():
    traffic = one_to_one((0, 3), (1, 4), (2, 5))
    cluster = two_operators(traffic, placement=[0] * 6)
    plan = Albic().plan(cluster)
    assert plan.collocation_after == 1
    # Three units of 20 on two workers.
    assert plan.distance_after == 10


def test_a_set_that_is_too_large_is_cut():
    pairs = [(i, i + 1) for i in range(11)]
    cluster = Cluster(
        [5] * 12, [0] * 12, [1, 1, 1], operator=np.arange(12), traffic=one_to_one(*pairs)
    )
    plan = Albic(score_factor=0.5).plan(cluster)
    # A chain of 60 points: parts of at most 25, so three of 20 with two cuts.
    assert plan.distance_after == 0
    assert plan.collocation_after == pytest.approx(9 / 11)


def test_units_fit_the_budget():
    pairs = [(i, i + 1) for i in range(11)]
    cluster = Cluster(
        [2] * 12, [0] * 12, [1, 1], operator=np.arange(12), traffic=one_to_one(*pairs)
    )
    plan = Albic(4, score_factor=0.5).plan(cluster)
    assert plan.collocation_after == pytest.approx(10 / 11)
    assert 0 < len(plan.moves) <= 4


def test_collocation_is_given_up_for_balance():
    # Everything talks to everything on one worker; only single key groups can be balanced well.
    pairs = [(i, j) for i in range(3) for j in range(3, 6)]
    cluster = two_operators(one_to_one(*pairs), placement=[0] * 6)
    cluster = replace(cluster, load=[40] * 6)
    plan = Albic(max_distance=1, score_factor=0.5).plan(cluster)
    assert plan.distance_after == 0
    plan = Albic(max_distance=1, max_part_load=250, step=250, score_factor=0.5).plan(cluster)
    assert plan.distance_after == 0
    assert plan.reason.endswith("collocation given up for a load distance of at most 1 points")


def test_a_key_group_that_cannot_be_balanced_does_not_stop_collocation():
    traffic = one_to_one((1, 4), (2, 5))
    cluster = two_operators(traffic, placement=(0, 1, 1, 0, 2, 3), capacity=[1, 1, 1, 1])
    cluster = replace(cluster, load=[90, 10, 10, 0, 10, 10])
    plan = Albic(4).plan(cluster)
    assert plan.distance_after > 10
    assert plan.collocation_after > plan.collocation_before


def test_large_units_leave_removed_workers():
    pairs = [(i, i + 1) for i in range(7)]
    cluster = Cluster(
        [1] * 8,
        [2] * 8,
        [1, 1, 1],
        removed=[False, False, True],
        operator=np.arange(8),
        traffic=one_to_one(*pairs),
    )
    for _ in range(4):
        plan = Albic(3, score_factor=0.5).plan(cluster)
        assert len(plan.moves) <= 3
        cluster = applied(cluster, plan)
    assert cluster.undrained(cluster.placement) == 0


def chain(seed, one_to_one=0.5):
    cluster = even_cluster(40, 800, seed, operators=20)
    rng = np.random.default_rng((seed, 2))
    return replace(cluster, traffic=chain_traffic(cluster, one_to_one, rng)), rng


def test_the_papers_chain():
    cluster, rng = chain(0)
    distances, shares = [], []
    for _ in range(50):
        cluster = fluctuated(cluster, rng)
        plan = Albic(20).plan(cluster)
        assert len(plan.moves) <= 20
        cluster = applied(cluster, plan)
        distances.append(plan.distance_after)
        shares.append(plan.collocation_after)
    assert shares[-1] >= 0.5
    assert np.mean(distances) <= 0.6


def test_cola_moves_nearly_everything():
    cluster, rng = chain(0)
    for _ in range(3):
        cluster = fluctuated(cluster, rng)
        plan = Cola().plan(cluster)
        assert len(plan.moves) > 400
        assert plan.collocation_after > 0.45
        cluster = applied(cluster, plan)


def test_cola_uses_workers_that_stay():
    cluster, _ = chain(1)
    removed = np.arange(40) < 10
    plan = Cola().plan(replace(cluster, removed=removed))
    assert not removed[plan.placement].any()
