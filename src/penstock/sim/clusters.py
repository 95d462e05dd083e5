"""Simulated clusters: key groups whose loads change, and plans that are carried out.

The set-up is that of the ALBIC paper, sections 5.1 and 5.3. No record is executed: the loads of key
groups are given, and plans of a placer are carried out at once.
"""

from dataclasses import replace

import numpy as np

from penstock.errors import PenstockError
from penstock.policies.kernels import Float64, Int64
from penstock.policies.placement import Cluster, PlacementPlan, Traffic
from penstock.policies.validation import between, positive, whole

# Load of an average worker in points.
MEAN = 50.0
# Largest difference of a key group's load from the mean at first, as a part of the mean.
NOISE = 0.05
# Part of the workers whose load changes.
CHANGED = 0.2


def even_cluster(
    workers: int, key_groups: int, seed: int, *, operators: int = 1, mean: float = MEAN
) -> Cluster:
    """Return a cluster whose workers have the same number of key groups, of nearly equal loads.

    Args:
        workers: number of workers, each of capacity 1, >= 1.
        key_groups: total number of key groups, a multiple of workers and of operators.
        seed: seed of the loads and of the placement.
        operators: number of operators; key groups are numbered operator by operator.
        mean: mean load of a worker in points, > 0.

    Example:
        >>> cluster = even_cluster(20, 400, seed=0)
        >>> round(cluster.mean), cluster.distance(cluster.placement) < 2
        (50, True)
    """
    whole("workers", workers, least=1)
    for name, parts in (("workers", workers), ("operators", operators)):
        if key_groups % parts:
            raise PenstockError(
                f"key_groups must be a multiple of {name} = {parts}; got {key_groups}"
            )
    rng = np.random.default_rng(whole("seed", seed, least=0))
    share = positive("mean", mean) * workers / key_groups
    return Cluster(
        load=share * (1 + rng.uniform(-NOISE, NOISE, key_groups)),
        placement=rng.permutation(key_groups) % workers,
        capacity=np.ones(workers),
        operator=np.arange(key_groups) // (key_groups // operators),
    )


def uneven_cluster(workers: int, key_groups: int, varies: float, *, seed: int) -> Cluster:
    """Return a cluster in which the load of a fifth of the workers has changed: half up, half down.

    Half of a changed worker's key groups change: the paper's "a randomly selected set".

    Args:
        workers: number of workers, each of capacity 1, >= 1.
        key_groups: total number of key groups, a multiple of workers.
        varies: part of a worker's load in [0, 1]; the load changes by half of it, up or down.
        seed: seed of the loads, the placement and the changes.
    """
    between("varies", varies, 0, 1, closed="low high")
    cluster = even_cluster(workers, key_groups, seed)
    rng = np.random.default_rng((seed, 1))
    load = cluster.load[:, 0].copy()
    for i, worker in enumerate(rng.permutation(workers)[: round(CHANGED * workers)]):
        sign = 0.5 if i % 2 else -0.5
        own = np.flatnonzero(cluster.placement == worker)
        _change(load, own, part=sign * varies, rng=rng)
    return replace(cluster, load=load)


def _change(load: Float64, own: Int64, *, part: float, rng: np.random.Generator) -> None:
    """Change the load of a worker by a part of it, by half of its key groups drawn at random."""
    drawn = rng.permutation(own)[: max(1, own.size // 2)]
    load[drawn] *= 1 + part * float(load[own].sum() / load[drawn].sum())


def fluctuated(cluster: Cluster, rng: np.random.Generator, most: float = 0.02) -> Cluster:
    """Return the cluster after the load of a fifth of its workers has changed a little.

    Args:
        cluster: cluster before the change.
        rng: generator that the changes are drawn from.
        most: largest change, as a part of a worker's load.
    """
    load = cluster.load[:, 0].copy()
    for worker in rng.permutation(cluster.workers)[: round(CHANGED * cluster.workers)]:
        own = np.flatnonzero(cluster.placement == worker)
        if load[own].sum() > 0:
            load[own] *= 1 + rng.uniform(-most, most)
    return replace(cluster, load=load)


def chain_traffic(cluster: Cluster, one_to_one: float, rng: np.random.Generator) -> Traffic:
    """Return the traffic between the key groups of a chain of operators.

    Every key group sends one unit to the next operator. Some key groups send all of it to a partner
    of their own there. The others send the same amount to each key group there.

    Args:
        cluster: cluster whose operators are chained in their order, with equally many key groups.
        one_to_one: part of the key groups that have a partner of their own, in [0, 1].
        rng: generator that the partners are drawn from.
    """
    between("one_to_one", one_to_one, 0, 1, closed="low high")
    source, target, volume = [], [], []
    for name in range(int(cluster.operator.max())):
        here, there = (np.flatnonzero(cluster.operator == name + i) for i in (0, 1))
        count = round(one_to_one * here.size)
        mixed, partners = rng.permutation(here), rng.permutation(there)
        source += [mixed[:count], np.repeat(mixed[count:], there.size)]
        target += [partners[:count], np.tile(there, here.size - count)]
        volume += [np.ones(count), np.full((here.size - count) * there.size, 1 / there.size)]
    return Traffic(np.concatenate(source), np.concatenate(target), np.concatenate(volume))


def applied(cluster: Cluster, plan: PlacementPlan) -> Cluster:
    """Return the cluster after a plan has been carried out."""
    return replace(cluster, placement=plan.placement)
