"""What every placer must do."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from penstock.policies.placement import Cluster, PlacementPlan, Placer, Traffic

WORKERS, GROUPS = 5, 60


def check_every_key_group(placer: Placer) -> None:
    """Every key group is placed once, and the moves lead there."""
    for seed in range(3):
        cluster = uneven(seed)
        plan = placer.plan(cluster)
        where = cluster.placement.copy()
        for group, source, target in plan.moves:
            assert where[group] == source, f"key group {group} is not on worker {source}"
            assert source != target, f"key group {group} moves to where it is"
            where[group] = target
        assert len({move.key_group for move in plan.moves}) == len(plan.moves)
        np.testing.assert_array_equal(where, plan.placement)
        assert ((where >= 0) & (where < WORKERS)).all()


def check_budget(placer: Placer) -> None:
    """No plan moves more than its budget allows, by number or by cost."""
    for name, limits in (("max_migrations", (0, 1, 7)), ("max_cost", (0.0, 5.0, 30.0))):
        if name not in placer.parameters():
            continue
        for limit in limits:
            budgets = {"max_migrations": None, "max_cost": None} | {name: limit}
            given = {key: value for key, value in budgets.items() if key in placer.parameters()}
            plan = placer.clone(**given).plan(uneven(4, removed=(1,)))
            spent = len(plan.moves) if name == "max_migrations" else plan.cost
            assert spent <= limit + 1e-9, f"{name} = {limit}, and the plan takes {spent}"


def check_distances(placer: Placer) -> None:
    """Distances, bound and cost of a plan are those of its placement, and it has a reason."""
    cluster = uneven(5)
    plan = placer.plan(cluster)
    assert plan.distance_before == cluster.distance(cluster.placement)
    assert plan.distance_after == cluster.distance(plan.placement)
    assert plan.lower_bound <= plan.distance_after + 1e-6
    moved = [move.key_group for move in plan.moves]
    np.testing.assert_allclose(plan.cost, cluster.migration_cost[moved].sum())
    assert plan.reason


def check_removed(placer: Placer) -> None:
    """Nothing moves to a worker that is to be removed, and plans in a row empty it."""
    cluster = uneven(6, removed=(0, 3))
    for _ in range(GROUPS):
        plan = placer.plan(cluster)
        assert not cluster.removed[[move.target for move in plan.moves]].any()
        cluster = applied(cluster, plan)
    budget = placer.budget
    assert budget == 0 or cluster.undrained(cluster.placement) == 0


def check_drains_without_load(placer: Placer) -> None:
    """Key groups without any load leave workers that are to be removed, too."""
    cluster = uneven(7, removed=(2,))
    cluster = replace(cluster, load=np.zeros(GROUPS))
    for _ in range(GROUPS):
        cluster = applied(cluster, placer.plan(cluster))
    assert placer.budget == 0 or cluster.undrained(cluster.placement) == 0


def check_comes_to_rest(placer: Placer) -> None:
    """Plans in a row for loads that do not change come to an end."""
    cluster = uneven(8)
    moves = []
    for _ in range(2 * GROUPS):
        plan = placer.plan(cluster)
        moves.append(len(plan.moves))
        cluster = applied(cluster, plan)
    assert moves[-1] == 0, f"there is still something to move: {moves[-5:]}"


def check_balanced(placer: Placer) -> None:
    """What is balanced stays as it is, unless plans are made from scratch and have no budget."""
    groups = np.arange(GROUPS)
    cluster = Cluster(np.full(GROUPS, 2.0), groups % WORKERS, np.ones(WORKERS))
    if "max_migrations" in placer.parameters():
        plan = placer.plan(cluster)
        assert plan.moves == (), plan.reason


def check_same_plan(placer: Placer) -> None:
    """The same cluster gives the same plan."""
    cluster = uneven(9, removed=(1,))
    assert placer.plan(cluster).moves == placer.clone().plan(cluster).moves


def check_inputs_kept(placer: Placer) -> None:
    """The cluster is not changed."""
    cluster, same = uneven(10), uneven(10)
    placer.plan(cluster)
    for name in ("load", "placement", "capacity", "removed", "migration_cost"):
        np.testing.assert_array_equal(getattr(cluster, name), getattr(same, name))


def check_nothing_known(placer: Placer) -> None:
    """Without key groups, workers that stay or known loads nothing moves, for a reason."""
    cluster = uneven(11)
    load = cluster.load.copy()
    load[3, 0] = np.nan
    cases = (
        Cluster(np.empty(0), np.empty(0, dtype=np.int64), np.ones(2)),
        replace(cluster, load=load),
        replace(cluster, load=np.zeros(GROUPS)),
        replace(cluster, removed=np.ones(WORKERS, dtype=np.bool_)),
    )
    for case in cases:
        plan = placer.plan(case)
        assert plan.moves == ()
        assert plan.obstacle, plan.reason
        assert plan.reason == f"nothing is moved: {plan.obstacle}"


def check_one_worker(placer: Placer) -> None:
    """With one worker there is nothing to move."""
    cluster = Cluster(np.ones(4), np.zeros(4, dtype=np.int64), np.ones(1))
    assert placer.plan(cluster).moves == ()


CHECKS: list[Callable[..., None]] = [
    check_every_key_group,
    check_budget,
    check_distances,
    check_removed,
    check_drains_without_load,
    check_comes_to_rest,
    check_balanced,
    check_same_plan,
    check_inputs_kept,
    check_nothing_known,
    check_one_worker,
]


def uneven(seed: int, removed: tuple[int, ...] = ()) -> Cluster:
    """Return a cluster of unequal workers and uneven loads, with some traffic."""
    rng = np.random.default_rng(seed)
    marked = np.zeros(WORKERS, dtype=np.bool_)
    marked[list(removed)] = True
    source, target = rng.integers(0, GROUPS, (2, 2 * GROUPS))
    return Cluster(
        load=rng.exponential(4.0, GROUPS),
        placement=rng.integers(0, WORKERS, GROUPS),
        capacity=rng.choice([1.0, 2.0], WORKERS),
        removed=marked,
        operator=np.arange(GROUPS) // 20,
        migration_cost=rng.uniform(0.5, 4.0, GROUPS),
        traffic=Traffic(source, target, rng.exponential(1.0, 2 * GROUPS)),
    )


def applied(cluster: Cluster, plan: PlacementPlan) -> Cluster:
    """Return the cluster when a plan has been carried out."""
    return replace(cluster, placement=plan.placement)
