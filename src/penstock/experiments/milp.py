"""Load balancing in the ALBIC paper (MILP): Figures 2 to 9, on simulated clusters.

Loads are in points: 100 is a worker that is busy all the time. The paper does not say how loaded
its workers are; ours have 50 points on average. Its Wikipedia stream is replaced by one of the
same shape: three operators of 100 key groups on 20 workers, with popular key groups and rates
that drift and jump.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from penstock.experiments import milp_claims as claims
from penstock.experiments.base import Experiment, Extra, Sample, X
from penstock.policies.grouping import PartialKey
from penstock.policies.placement import Cluster, Flux, LocalSearch, Placer
from penstock.sim import applied, even_cluster, uneven_cluster

SIZES = {20: 400, 40: 800, 60: 1_200}
BUDGETS = (5, 10, 20, 40, 80)
VARIES = 0.3
SOLVER_S = 2.0
# The solver alone is tried on the smallest cluster only: the others take it too long.
SOLVED = 20
TIMES_S = (0.5, 1, 2, 5)

ROUNDS = 15
REMOVED = 10
BUDGET = 20

WORKERS = 20
PERIODS = 60
WIKIPEDIA_BUDGET = 13
# From where key groups were at first: the paper leaves these periods out, too.
SETTLED = 10
# What a migration pauses a key group for (section 5.2.2), in seconds.
PAUSE_S = 2.5
# Power of both choices: records of a period that are routed, articles of a key group, and what
# merging their partial results takes, as a share of the work on them. The paper leaves it open.
RECORDS = 100_000
ARTICLES = 16
MERGE = 0.1


def solvers(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figures 2 to 4: load distance by budget, for three sizes of the cluster."""
    budget = int(x)
    samples = []
    for workers, groups in SIZES.items():
        cluster = uneven_cluster(workers, groups, VARIES, seed=seed)
        bound = 0.0
        for series, placer in _compared(budget, extra).items():
            placer.plan(cluster)  # compiled, if it has to be
            start = time.perf_counter()
            plan = placer.plan(cluster)
            took_ms = 1_000 * (time.perf_counter() - start)
            bound = plan.lower_bound
            samples += [
                Sample(series, x, f"distance_{workers}", plan.distance_after),
                Sample(series, x, f"plan_ms_{workers}", took_ms),
                Sample(series, x, f"migrations_{workers}", len(plan.moves)),
            ]
        samples.append(Sample("lower_bound", x, f"distance_{workers}", bound))
        if workers == SOLVED:
            alone = solved(cluster, budget, SOLVER_S)
            samples.append(Sample("highs", x, f"distance_{workers}", alone))
    return samples


def _compared(budget: int, extra: Extra) -> dict[str, Placer]:
    """Return what is compared with the solver, by series."""
    makes: dict[str, Placer] = {"flux": Flux(budget), "local_search": LocalSearch(budget)}
    return makes | {series: make(budget) for series, make in extra.items()}


def solver_time(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figures 2 to 4: load distance by the time that the solver gets, for the three sizes."""
    samples = []
    for workers, groups in SIZES.items():
        cluster = uneven_cluster(workers, groups, VARIES, seed=seed)
        compared = _compared(BUDGET, extra).items()
        plans = {series: placer.plan(cluster) for series, placer in compared}
        found = {series: plan.distance_after for series, plan in plans.items()}
        found["lower_bound"] = plans["local_search"].lower_bound
        found["highs"] = solved(cluster, BUDGET, float(x))
        samples += [Sample(name, x, f"distance_{workers}", d) for name, d in found.items()]
    return samples


def solved(cluster: Cluster, budget: int, limit_s: float) -> float:
    """Return the load distance that the solver reaches without the search."""
    # Imported here: it takes a tenth of a second, and the command line lists experiments.
    from penstock.policies.placement.highs import solve  # noqa: PLC0415

    problem = LocalSearch(budget).problem(cluster)
    found, _ = solve(problem, problem.home, enough=0.0, max_nodes=1_000_000, time_limit_s=limit_s)
    return problem.distance(found)


def scale_in(_: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 5: ten of sixty workers are to be removed while others are overloaded."""
    samples = []
    for overloaded in (1, 5):
        makes: dict[str, Placer] = {
            "local_search": LocalSearch(BUDGET),
            "drain_first": LocalSearch(BUDGET, tolerated=np.inf),
            "flux": Flux(BUDGET),
        }
        makes |= {series: make(BUDGET) for series, make in extra.items()}
        for series, placer in makes.items():
            cluster = leaving(overloaded, seed)
            for turn in range(1, ROUNDS + 1):
                plan = placer.plan(cluster)
                cluster = applied(cluster, plan)
                left = cluster.undrained(cluster.placement)
                samples += [
                    Sample(series, turn, f"distance_{overloaded}", plan.distance_after),
                    Sample(series, turn, f"undrained_{overloaded}", left),
                    Sample(series, turn, f"migrations_{overloaded}", len(plan.moves)),
                ]
    return samples


def leaving(overloaded: int, seed: int) -> Cluster:
    """Return a cluster of which the first workers are to be removed and the last ones are full."""
    cluster = even_cluster(60, SIZES[60], seed)
    load = cluster.load[:, 0].copy()
    for worker in range(60 - overloaded, 60):
        own = cluster.placement == worker
        load[own] *= 100 / load[own].sum()
    return replace(cluster, load=load, removed=np.arange(60) < REMOVED)


def wikipedia(_: X, seed: int, extra: Extra) -> list[Sample]:
    """Figures 6 to 9: quality, migrations and pauses, period by period."""
    makes: dict[str, Placer] = {
        "flux": Flux(WIKIPEDIA_BUDGET),
        "local_search": LocalSearch(WIKIPEDIA_BUDGET),
        "local_search_of_10": LocalSearch(10),
        "unrestricted": LocalSearch(),
    }
    makes |= {series: make(WIKIPEDIA_BUDGET) for series, make in extra.items()}
    samples = both_choices(seed)
    for series, placer in makes.items():
        cluster = edits_cluster(seed)
        for period, load in enumerate(edits(seed), start=1):
            cluster = replace(cluster, load=load)
            plan = placer.plan(cluster)
            cluster = applied(cluster, plan)
            samples += _period(series, period, plan.distance_after, len(plan.moves))
    return samples


def _period(series: str, period: int, distance: float, migrations: int) -> list[Sample]:
    """Return the numbers of a period, if it counts."""
    if period <= SETTLED:
        return []
    return [
        Sample(series, period, "distance", distance),
        Sample(series, period, "migrations", migrations),
        Sample(series, period, "pause_s", PAUSE_S * migrations),
    ]


def both_choices(seed: int) -> list[Sample]:
    """The power of both choices (PKG): key groups never move, records choose between two workers.

    Each minute the partial results of an article are merged where it is at home. That work is as
    uneven as articles are, and no choice is left for it.
    """
    rng = np.random.default_rng((seed, 4))
    grouping = PartialKey(WORKERS, seed=seed)
    cluster = edits_cluster(seed)
    home, of_articles = cluster.placement, cluster.operator > 0
    samples = []
    for period, load in enumerate(edits(seed), start=1):
        groups = rng.choice(load.size, RECORDS, p=load / load.sum())
        chosen = grouping.route(groups * ARTICLES + rng.integers(0, ARTICLES, RECORDS))
        work = np.bincount(chosen, minlength=WORKERS) * load.sum() / RECORDS
        merged = np.where(of_articles, MERGE * load, 0.0)
        work = work + np.bincount(home, weights=merged, minlength=WORKERS)
        samples += _period("pkg", period, float(np.abs(work - work.mean()).max()), 0)
    return samples


def edits_cluster(seed: int) -> Cluster:
    """Return Real Job 1's cluster: GeoHash, TopK and global TopK, of 100 key groups each."""
    return even_cluster(WORKERS, 300, seed, operators=3)


def edits(seed: int) -> Iterator[np.typing.NDArray[np.float64]]:
    """Yield the loads of all key groups, period by period.

    Places are even (the paper invents them), articles are not: a key group of the other operators
    has a popularity of its own, which drifts, and now and then is in the news for a while.
    """
    rng = np.random.default_rng((seed, 3))
    popularity = rng.lognormal(0.0, 0.4, 200)
    news = np.zeros(200)
    day = 0.0
    for _ in range(PERIODS):
        day += 2 * np.pi / 40
        popularity *= np.exp(rng.normal(0.0, 0.05, 200) - 0.02 * np.log(popularity))
        news *= 0.7
        news[rng.random(200) < 0.005] += 4.0
        rate = 1 + 0.3 * np.sin(day) + rng.normal(0.0, 0.03)
        places = rng.normal(1.0, 0.02, 100)
        yield np.maximum(0.0, 3.0 * rate * np.concatenate((places, popularity + news)))


def _experiment(
    name: str,
    figure: str,
    summary: str,
    run: Callable[[X, int, Extra], list[Sample]],
    check: claims.Check,
    metrics: tuple[str, ...],
    x_label: str,
    xs: tuple[X, ...] = ("whole",),
    streams: int = 8,
) -> Experiment:
    return Experiment(
        name=name,
        figure=figure,
        summary=summary,
        x_label=x_label,
        xs=xs,
        run=run,
        claims=check,
        streams=streams,
        main_metric=metrics[0],
        metrics=metrics,
        params={"mean_points": 50, "simulated": True},
        family=Placer,
    )


EXPERIMENTS: tuple[Experiment, ...] = (
    _experiment(
        "milp-solvers",
        "ALBIC Figures 2 to 4",
        "load changes of 30% on a fifth of 20, 40 and 60 workers",
        solvers,
        claims.solvers,
        ("distance_60", "distance_40", "distance_20"),
        "migrations allowed",
        BUDGETS,
    ),
    _experiment(
        "milp-solver-time",
        "ALBIC Figures 2 to 4",
        "the same, 20 migrations: what a free solver makes of its time",
        solver_time,
        claims.solver_time,
        ("distance_20", "distance_40", "distance_60"),
        "seconds for the solver",
        TIMES_S,
        streams=3,
    ),
    _experiment(
        "milp-scale-in",
        "ALBIC Figure 5",
        "10 of 60 workers to be removed, 1 or 5 overloaded, 20 migrations a round",
        scale_in,
        claims.scale_in,
        ("distance_1", "undrained_1", "distance_5", "undrained_5"),
        "round",
    ),
    _experiment(
        "milp-wikipedia",
        "ALBIC Figures 6 to 9",
        "Real Job 1 on a stream like Wikipedia's, 20 workers, 300 key groups",
        wikipedia,
        claims.wikipedia,
        ("distance", "migrations", "pause_s"),
        "period",
    ),
)
