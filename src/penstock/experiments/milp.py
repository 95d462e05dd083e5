"""Load balancing in the ALBIC paper (MILP): Figures 2 to 9, on simulated clusters.

Loads are in points: a worker that is busy all the time has 100. The paper does not print the load
of its workers; ours have 50 points on average. A generated stream of the same shape replaces the
paper's Wikipedia stream. It has three operators of 100 key groups on 20 workers, with popular key
groups, and rates that drift and jump.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from penstock.experiments import milp_claims as claims
from penstock.experiments.base import Experiment, Extra, Run, Sample, X, samples
from penstock.policies.grouping import PartialKey
from penstock.policies.placement import Cluster, Flux, LocalSearch, Milp, Placer
from penstock.sim import applied, even_cluster, uneven_cluster

SIZES = {20: 400, 40: 800, 60: 1_200}
BUDGETS = (5, 10, 20, 40, 80)
VARIES = 0.3
# Fluctuations of loads in %, with the budget below; the paper's text does not give its values.
FLUCTUATIONS = (10, 20, 30, 40, 50)
SOLVER_S = 2.0
# The solver alone runs on the smallest cluster only: it takes too long on the others.
SOLVED = claims.SOLVED
TIMES_S = (0.5, 1, 2, 5)

ROUNDS = 15
REMOVED = 10
BUDGET = 20

WORKERS = 20
PERIODS = 60
WIKIPEDIA_BUDGET = 13
# Periods in which key groups settle: the paper leaves them out, too.
SETTLED = 10
# Pause of a key group during its migration (section 5.2.2), in seconds.
PAUSE_S = 2.5
# Power of both choices: routed records of a period, articles of a key group, and the work of
# merging partial results, as a share of all work on them. The paper leaves that share open.
RECORDS = 100_000
ARTICLES = 16
MERGE = 0.1


def solvers(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figures 2 to 4: load distance by budget, for three sizes of the cluster."""
    return _distances(x, seed, extra, budget=int(x), varies=VARIES)


def fluctuation(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figures 2 to 4: load distance by fluctuation of loads in %, for the three sizes."""
    return _distances(x, seed, extra, budget=BUDGET, varies=float(x) / 100)


def _distances(x: X, seed: int, extra: Extra, *, budget: int, varies: float) -> list[Sample]:
    found = []
    for workers, groups in SIZES.items():
        cluster = uneven_cluster(workers, groups, varies, seed=seed)
        bound = 0.0
        for series, placer in _compared(budget, extra).items():
            placer.plan(cluster)  # the first call may compile kernels
            start = time.perf_counter()
            plan = placer.plan(cluster)
            took_ms = 1_000 * (time.perf_counter() - start)
            bound = plan.lower_bound
            numbers = {
                f"distance_{workers}": plan.distance_after,
                f"plan_ms_{workers}": took_ms,
                f"migrations_{workers}": len(plan.moves),
            }
            found += samples(series, x, numbers)
        found += samples("lower_bound", x, {f"distance_{workers}": bound})
        if workers == SOLVED:
            alone = solved(cluster, budget, SOLVER_S)
            found += samples("highs", x, {f"distance_{workers}": alone})
            both = Milp(budget, max_binaries=workers * groups, time_limit_s=SOLVER_S).plan(cluster)
            found += samples("milp", x, {f"distance_{workers}": both.distance_after})
    return found


def _compared(budget: int, extra: Extra) -> dict[str, Placer]:
    """Return the placers that are compared with the solver, by series."""
    makes: dict[str, Placer] = {"flux": Flux(budget), "local_search": LocalSearch(budget)}
    return makes | {series: make(budget) for series, make in extra.items()}


def solver_time(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figures 2 to 4: load distance by the solver's time limit, for the three sizes."""
    found = []
    for workers, groups in SIZES.items():
        cluster = uneven_cluster(workers, groups, VARIES, seed=seed)
        compared = _compared(BUDGET, extra).items()
        plans = {series: placer.plan(cluster) for series, placer in compared}
        distances = {series: plan.distance_after for series, plan in plans.items()}
        distances["lower_bound"] = plans["local_search"].lower_bound
        distances["highs"] = solved(cluster, BUDGET, float(x))
        for series, distance in distances.items():
            found += samples(series, x, {f"distance_{workers}": distance})
    return found


def solved(cluster: Cluster, budget: int, limit_s: float) -> float:
    """Return the load distance that the solver reaches without the search."""
    # Imported here: the import takes a tenth of a second, which a list of experiments need not pay.
    from penstock.policies.placement.highs import solve  # noqa: PLC0415

    problem = LocalSearch(budget).problem(cluster)
    found, _ = solve(problem, problem.home, enough=0.0, max_nodes=1_000_000, time_limit_s=limit_s)
    return problem.distance(found)


def scale_in(_: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 5: ten of sixty workers are to be removed while others are overloaded."""
    found = []
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
                numbers = {
                    f"distance_{overloaded}": plan.distance_after,
                    f"undrained_{overloaded}": cluster.undrained(cluster.placement),
                    f"migrations_{overloaded}": len(plan.moves),
                }
                found += samples(series, turn, numbers)
    return found


def leaving(overloaded: int, seed: int) -> Cluster:
    """Return a cluster whose first workers will be removed and whose last workers are full."""
    cluster = even_cluster(60, SIZES[60], seed)
    load = cluster.load[:, 0].copy()
    for worker in range(60 - overloaded, 60):
        own = cluster.placement == worker
        load[own] *= 100 / load[own].sum()
    return replace(cluster, load=load, removed=np.arange(60) < REMOVED)


def wikipedia(_: X, seed: int, extra: Extra) -> list[Sample]:
    """Figures 6 to 9: load distance, migrations and pauses, period by period."""
    makes: dict[str, Placer] = {
        "flux": Flux(WIKIPEDIA_BUDGET),
        "local_search": LocalSearch(WIKIPEDIA_BUDGET),
        "local_search_of_10": LocalSearch(10),
        "unrestricted": LocalSearch(),
    }
    makes |= {series: make(WIKIPEDIA_BUDGET) for series, make in extra.items()}
    found = both_choices(seed)
    for series, placer in makes.items():
        cluster = edits_cluster(seed)
        for period, load in enumerate(edits(seed), start=1):
            cluster = replace(cluster, load=load)
            plan = placer.plan(cluster)
            cluster = applied(cluster, plan)
            found += _period(series, period, plan.distance_after, migrations=len(plan.moves))
    return found


def _period(series: str, period: int, distance: float, *, migrations: int) -> list[Sample]:
    """Return the numbers of a period, or nothing while key groups settle."""
    if period <= SETTLED:
        return []
    numbers = {"distance": distance, "migrations": migrations, "pause_s": PAUSE_S * migrations}
    return samples(series, period, numbers)


def both_choices(seed: int) -> list[Sample]:
    """Return the power of both choices (PKG): a record goes to one of two workers.

    Key groups never move. Each minute one worker merges the partial results of an article. That
    work is as uneven as the articles are, and PKG cannot balance it.
    """
    rng = np.random.default_rng((seed, 4))
    grouping = PartialKey(WORKERS, seed=seed)
    cluster = edits_cluster(seed)
    home, of_articles = cluster.placement, cluster.operator > 0
    found = []
    for period, load in enumerate(edits(seed), start=1):
        groups = rng.choice(load.size, RECORDS, p=load / load.sum())
        chosen = grouping.route(groups * ARTICLES + rng.integers(0, ARTICLES, RECORDS))
        work = np.bincount(chosen, minlength=WORKERS) * load.sum() / RECORDS
        merged = np.where(of_articles, MERGE * load, 0.0)
        work = work + np.bincount(home, weights=merged, minlength=WORKERS)
        distance = float(np.abs(work - work.mean()).max())
        found += _period("pkg", period, distance, migrations=0)
    return found


def edits_cluster(seed: int) -> Cluster:
    """Return the cluster of Real Job 1: GeoHash, TopK and global TopK, each of 100 key groups."""
    return even_cluster(WORKERS, 300, seed, operators=3)


def edits(seed: int) -> Iterator[np.typing.NDArray[np.float64]]:
    """Yield the loads of all key groups, period by period.

    Places are even, because the paper invents them. Articles are not. Each key group of the other
    operators has a popularity that drifts, and from time to time it is in the news for a while.
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


def placement_experiment(
    name: str,
    run: Run,
    check: claims.Check,
    *,
    figure: str,
    summary: str,
    details: str,
    metrics: tuple[str, ...],
    x_label: str,
    xs: tuple[X, ...] = ("whole",),
    streams: int = 8,
    part: str = "{}",
    params: Mapping[str, object] | None = None,
    depends_on_machine: str = "",
) -> Experiment:
    """Return an experiment that compares placers on simulated clusters; see `Experiment`."""
    return Experiment(
        name=name,
        figure=figure,
        summary=summary,
        details=details,
        x_label=x_label,
        xs=xs,
        run=run,
        claims=check,
        streams=streams,
        main_metric=metrics[0],
        metrics=metrics,
        part=part,
        params={"mean_points": 50, **(params or {}), "simulated": True},
        family=Placer,
        depends_on_machine=depends_on_machine,
    )


_SOLVER_TIME = "highs and milp, whose solver has a time limit"

EXPERIMENTS: tuple[Experiment, ...] = (
    placement_experiment(
        "milp-solvers",
        solvers,
        claims.solvers,
        figure="ALBIC Figures 2 to 4",
        summary="load distance by migrations allowed",
        details="loads of a fifth of 20, 40 and 60 workers have changed by 30%",
        metrics=("distance_60", "distance_40", "distance_20"),
        part="{} workers",
        x_label="migrations allowed",
        xs=BUDGETS,
        depends_on_machine=f"plan_ms; {_SOLVER_TIME}",
    ),
    placement_experiment(
        "milp-fluctuation",
        fluctuation,
        claims.fluctuation,
        figure="ALBIC Figures 2 to 4",
        summary="load distance by load fluctuation",
        details="20 migrations allowed; loads of a fifth of 20, 40 and 60 workers have changed",
        metrics=("distance_60", "distance_40", "distance_20"),
        part="{} workers",
        x_label="fluctuation of loads (%)",
        xs=FLUCTUATIONS,
        streams=4,
        depends_on_machine=_SOLVER_TIME,
    ),
    placement_experiment(
        "milp-solver-time",
        solver_time,
        claims.solver_time,
        figure="ALBIC Figures 2 to 4",
        summary="load distance by time for the solver",
        details="20 migrations allowed, a free solver",
        metrics=("distance_20", "distance_40", "distance_60"),
        part="{} workers",
        x_label="seconds for the solver",
        xs=TIMES_S,
        streams=3,
        depends_on_machine=_SOLVER_TIME,
    ),
    placement_experiment(
        "milp-scale-in",
        scale_in,
        claims.scale_in,
        figure="ALBIC Figure 5",
        summary="10 of 60 workers are removed",
        details="1 or 5 other workers are overloaded, 20 migrations a round",
        metrics=("distance_1", "undrained_1", "distance_5", "undrained_5"),
        part="{} overloaded",
        x_label="round",
    ),
    placement_experiment(
        "milp-wikipedia",
        wikipedia,
        claims.wikipedia,
        figure="ALBIC Figures 6 to 9",
        summary="Real Job 1 on a stream like Wikipedia's",
        details="20 workers, 300 key groups",
        metrics=("distance", "migrations", "pause_s"),
        x_label="period",
    ),
)
