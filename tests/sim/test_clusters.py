"""Simulated clusters: loads, changes, and chains of operators."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.policies.placement import LocalSearch
from penstock.sim import (
    applied,
    chain_traffic,
    even_cluster,
    fluctuated,
    uneven_cluster,
)


def test_every_worker_has_as_many_key_groups():
    cluster = even_cluster(20, 400, 1, operators=10)
    assert (np.bincount(cluster.placement) == 20).all()
    assert (np.bincount(cluster.operator) == 40).all()
    assert cluster.mean == pytest.approx(50, rel=0.01)
    share = cluster.load[:, 0] / 2.5
    assert 0.95 <= share.min() < share.max() <= 1.05


def test_a_fifth_of_the_workers_changes():
    cluster = uneven_cluster(60, 1200, 0.6, seed=2)
    deviations = cluster.deviations(cluster.placement)
    assert (deviations > 10).sum() == (deviations < -10).sum() == 6
    assert (np.abs(deviations) < 2).sum() == 48
    assert cluster.distance(cluster.placement) == pytest.approx(15, abs=1)


def test_fluctuations():
    cluster = even_cluster(20, 400, 3)
    after = fluctuated(cluster, np.random.default_rng(0))
    change = after.load[:, 0] / cluster.load[:, 0]
    changed = np.unique(cluster.placement[change != 1])
    assert changed.size == 4
    assert np.abs(change - 1).max() <= 0.02


def test_chains():
    cluster = even_cluster(10, 100, 4, operators=5)
    traffic = chain_traffic(cluster, 0.5, np.random.default_rng(0))
    assert (cluster.operator[traffic.target] == cluster.operator[traffic.source] + 1).all()
    sent = np.bincount(traffic.source, weights=traffic.volume, minlength=100)
    np.testing.assert_allclose(sent, cluster.operator < 4)
    alone = traffic.volume == 1
    assert alone.sum() == 40
    assert np.unique(traffic.target[alone]).size == 40


def test_the_most_and_the_least_collocation():
    cluster = even_cluster(10, 100, 5, operators=5)
    for part in (0.0, 1.0):
        traffic = chain_traffic(cluster, part, np.random.default_rng(0))
        one = replace(cluster, traffic=traffic)
        together = one.collocation(np.zeros(100, dtype=np.int64))
        assert together == pytest.approx(1)
        assert one.collocation(one.placement) < 0.25


def test_a_plan_is_carried_out():
    cluster = uneven_cluster(20, 400, 0.3, seed=6)
    plan = LocalSearch(20).plan(cluster)
    after = applied(cluster, plan)
    assert after.distance(after.placement) == plan.distance_after


def test_what_is_refused():
    with pytest.raises(
        PenstockError, match="key_groups must be a multiple of workers = 20; got 10"
    ):
        even_cluster(20, 10, 0)
    with pytest.raises(PenstockError, match="multiple of operators = 3"):
        even_cluster(2, 10, 0, operators=3)
    with pytest.raises(PenstockError, match="varies must be in"):
        uneven_cluster(2, 10, 1.5, seed=0)
    with pytest.raises(PenstockError, match="one_to_one must be in"):
        chain_traffic(even_cluster(2, 10, 0), 2.0, np.random.default_rng(0))
