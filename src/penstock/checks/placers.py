"""Checks of every placer."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from penstock.checks.common import name_of
from penstock.checks.records import must_equal
from penstock.policies.placement import Cluster, PlacementPlan, Placer, Traffic

WORKERS, GROUPS = 5, 60
# Plans in a row without a move after which a placer is at rest.
_AT_REST = 3


def check_every_key_group(placer: Placer) -> None:
    """Every key group is placed once, and the moves lead there."""
    label = name_of(placer)
    for seed in range(3):
        cluster = uneven(seed)
        plan = placer.plan(cluster)
        where = cluster.placement.copy()
        for group, source, target in plan.moves:
            assert where[group] == source, (
                f"{label} must move key groups from where they are; "
                f"key group {group} is on worker {where[group]}, not on {source}"
            )
            assert source != target, (
                f"{label} must only move key groups to other workers; "
                f"key group {group} moves from worker {source} to itself"
            )
            where[group] = target
        assert len({move.key_group for move in plan.moves}) == len(plan.moves), (
            f"{label} must move each key group at most once; got {plan.moves}"
        )
        must_equal(
            plan.placement, where, f"the placement of {label}'s plan must be that of its moves"
        )
        assert ((where >= 0) & (where < WORKERS)).all(), (
            f"{label} must place key groups on workers 0 to {WORKERS - 1}; "
            f"got {where.min()} to {where.max()}"
        )


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
            assert spent <= limit + 1e-9, (
                f"{name_of(placer)} must spend at most {name} = {limit}; its plan spends {spent:g}"
            )


def check_distances(placer: Placer) -> None:
    """A plan has a reason, and the distances, bound and cost of its placement."""
    cluster = uneven(5)
    plan = placer.plan(cluster)
    moved = [move.key_group for move in plan.moves]
    before, after = (cluster.distance(one) for one in (cluster.placement, plan.placement))
    cost = float(cluster.migration_cost[moved].sum())
    label = f"the plan of {name_of(placer)} must"
    assert plan.distance_before == before, (
        f"{label} have distance_before = {before:g}, the cluster's; got {plan.distance_before:g}"
    )
    assert plan.distance_after == after, (
        f"{label} have distance_after = {after:g}, its placement's; got {plan.distance_after:g}"
    )
    assert plan.lower_bound <= plan.distance_after + 1e-6, (
        f"{label} have a lower_bound of at most its distance_after = {plan.distance_after:g}; "
        f"got {plan.lower_bound:g}"
    )
    assert np.isclose(plan.cost, cost, rtol=1e-7, atol=0), (
        f"{label} have cost = {cost:g}, the sum of its migration costs; got {plan.cost:g}"
    )
    assert plan.reason, f"{label} have a reason that a person can read; got an empty text"


def check_removed(placer: Placer) -> None:
    """Key groups do not move to workers marked for removal, and plans in a row empty them."""
    cluster = uneven(6, removed=(0, 3))
    for plan in _plans(placer, cluster, GROUPS):
        targets = np.array([move.target for move in plan.moves], dtype=np.int64)
        wrong = targets[cluster.removed[targets]]
        assert not wrong.size, (
            f"{name_of(placer)} must not move key groups to workers marked for removal; "
            f"it moved one to worker {wrong[0]}"
        )
        cluster = applied(cluster, plan)
    _refuse_undrained(placer, cluster)


def check_drains_without_load(placer: Placer) -> None:
    """Key groups without any load leave workers marked for removal, too."""
    cluster = uneven(7, removed=(2,))
    cluster = replace(cluster, load=np.zeros(GROUPS))
    for plan in _plans(placer, cluster, GROUPS):
        cluster = applied(cluster, plan)
    _refuse_undrained(placer, cluster, " also if all loads are 0")


def _refuse_undrained(placer: Placer, cluster: Cluster, when: str = "") -> None:
    left = cluster.undrained(cluster.placement)
    assert placer.budget == 0 or left == 0, (
        f"{name_of(placer)} must empty workers marked for removal{when}; "
        f"{left} key groups are still there when it moves nothing any more, or after {GROUPS} plans"
    )


def check_comes_to_rest(placer: Placer) -> None:
    """Plans in a row for loads that do not change come to an end."""
    moves = [len(plan.moves) for plan in _plans(placer, uneven(8), 2 * GROUPS)]
    assert not any(moves[-_AT_REST:]), (
        f"{name_of(placer)} must come to rest if loads do not change; after {2 * GROUPS} plans "
        f"it still moves key groups, in the last five plans {moves[-5:]}"
    )


def check_balanced(placer: Placer) -> None:
    """A balanced cluster stays as it is, unless a placer plans from scratch without a budget."""
    groups = np.arange(GROUPS)
    cluster = Cluster(np.full(GROUPS, 2.0), groups % WORKERS, np.ones(WORKERS))
    if "max_migrations" in placer.parameters():
        plan = placer.plan(cluster)
        assert plan.moves == (), (
            f"{name_of(placer)} must leave a balanced cluster as it is; "
            f"it moves {len(plan.moves)} key groups: {plan.reason}"
        )


def check_same_plan(placer: Placer) -> None:
    """The same cluster gives the same plan."""
    cluster = uneven(9, removed=(1,))
    assert placer.plan(cluster).moves == placer.clone().plan(cluster).moves, (
        f"{name_of(placer)} must plan the same moves for the same cluster; two plans differ"
    )


def check_inputs_kept(placer: Placer) -> None:
    """The cluster is not changed."""
    cluster, same = uneven(10), uneven(10)
    placer.plan(cluster)
    for name in ("load", "placement", "capacity", "removed", "migration_cost"):
        duty = f"{name_of(placer)} must not change the cluster that it plans for: {name}"
        must_equal(getattr(cluster, name), getattr(same, name), duty)


def check_nothing_known(placer: Placer) -> None:
    """Nothing moves without key groups, workers that stay or known loads, and a reason is given."""
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
        assert plan.moves == (), (
            f"{name_of(placer)} must not move anything without key groups, workers that stay and "
            f"known loads; it moves {len(plan.moves)} key groups"
        )
        assert plan.obstacle, (
            f"{name_of(placer)} must name the obstacle if nothing can be planned; "
            f"got the reason {plan.reason!r}"
        )
        assert plan.reason == f"nothing is moved: {plan.obstacle}", (
            f"{name_of(placer)} must give the obstacle as its reason; got {plan.reason!r}"
        )


def check_one_worker(placer: Placer) -> None:
    """With one worker there is nothing to move."""
    cluster = Cluster(np.ones(4), np.zeros(4, dtype=np.int64), np.ones(1))
    moves = placer.plan(cluster).moves
    assert moves == (), f"{name_of(placer)} must not move anything with one worker; got {moves}"


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


def _plans(placer: Placer, cluster: Cluster, most: int) -> Iterator[PlacementPlan]:
    """Return plans in a row, each for the cluster after the one before, until nothing moves."""
    still = 0
    for _ in range(most):
        plan = placer.plan(cluster)
        yield plan
        cluster = applied(cluster, plan)
        still = 0 if plan.moves else still + 1
        if still == _AT_REST:
            return


def applied(cluster: Cluster, plan: PlacementPlan) -> Cluster:
    """Return the cluster after a plan has been carried out."""
    return replace(cluster, placement=plan.placement)
