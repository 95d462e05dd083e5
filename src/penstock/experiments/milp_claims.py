"""Claims of the ALBIC paper on load balancing (MILP), compared with our measurements."""

from collections.abc import Callable

import numpy as np

from penstock.experiments.claims import Claim, above, at_least, at_most, below, near
from penstock.experiments.results import Table

Check = Callable[[Table], list[Claim]]

# The paper's approach is a model for a solver: `highs` is a free solver alone, `milp` starts it
# from our search, `local_search` is our search alone.
OURS, SOLVER, BOTH_OF_THEM, FLUX = "local_search", "highs", "milp", "flux"
WORKERS = 20, 40, 60
# Size of the cluster on which the solver is tried with every budget.
SOLVED = 20


def _worse(table: Table, series: str, metric: str) -> list[float | str]:
    """Return the values of x at which a series is farther from balance than Flux."""
    own, flux = table.means(series, metric), table.means(FLUX, metric)
    return [x for x in own if own[x] > flux[x] * (1 + 1e-9)]


def _outperforms(table: Table, series: str, workers: int, *, by: str) -> Claim:
    """Claim that a series is not farther from balance than Flux, whatever x is."""
    worse = _worse(table, series, f"distance_{workers}")
    return Claim(
        claim=f"{series}, {workers} workers: load distance at most Flux's, any {by}",
        paper="consistently outperforms",
        source="Figures 2 to 4",
        ours="all" if not worse else f"not with {', '.join(map(str, worse))}",
        holds=not worse,
    )


def solvers(table: Table) -> list[Claim]:
    """Figures 2 to 4: over the budget."""
    over = max(
        table.row(OURS, x, f"migrations_{workers}").max - float(x)
        for workers in WORKERS
        for x in table.means(OURS, f"migrations_{workers}")
    )
    alone, mixed = (
        table.mean(s, 20, "distance_20") / table.mean(OURS, 20, "distance_20")
        for s in (SOLVER, BOTH_OF_THEM)
    )
    return [
        *(_outperforms(table, s, SOLVED, by="budget") for s in (SOLVER, BOTH_OF_THEM)),
        *(_outperforms(table, OURS, workers, by="budget") for workers in WORKERS),
        at_most(
            "local_search: load distance, 60 workers, 20 migrations",
            table.mean(OURS, 20, "distance_60"),
            goal=0.8,
        ),
        above(
            "flux: load distance, 60 workers, 20 migrations",
            table.mean(FLUX, 20, "distance_60"),
            goal=1.2,
        ),
        at_most(
            "local_search: time to plan in ms, 60 workers, 20 migrations",
            table.mean(OURS, 20, "plan_ms_60"),
            goal=100.0,
        ),
        at_most("local_search: migrations above the budget, worst run", over, goal=0),
        at_most(
            "highs within 2 s: load distance over our search's, 20 workers, 20 migrations",
            alone,
            paper="a pretty good solution within a few seconds",
            source="Figures 2 to 4",
            goal=1.0,
        ),
        at_most(
            "milp within 2 s: load distance over our search's, 20 workers, 20 migrations",
            mixed,
            goal=1.0,
        ),
    ]


def fluctuation(table: Table) -> list[Claim]:
    """Figures 2 to 4: over the load fluctuation."""
    return [
        _outperforms(table, SOLVER, SOLVED, by="fluctuation"),
        *(_outperforms(table, OURS, workers, by="fluctuation") for workers in WORKERS),
    ]


def solver_time(table: Table) -> list[Claim]:
    """Figures 2 to 4: the solver with its longest time limit."""
    found = []
    for workers in WORKERS:
        metric = f"distance_{workers}"
        distances = table.means(SOLVER, metric)
        last = max(distances, key=float)
        alone = distances[last]
        name = f"highs, {workers} workers, {last} s: load distance over"
        found += [
            at_most(
                f"{name} Flux's",
                alone / table.mean(FLUX, last, metric),
                paper="consistently outperforms",
                source="Figures 2 to 4",
                goal=1.0,
            ),
            at_least(f"{name} our search's", alone / table.mean(OURS, last, metric), goal=1.0),
        ]
    return found


def scale_in(table: Table) -> list[Claim]:
    """Figure 5."""
    found = []
    for overloaded in (1, 5):
        distances = {
            series: table.means(series, f"distance_{overloaded}")
            for series in (OURS, "drain_first")
        }
        early = {s: float(np.mean([d[x] for x in (1, 2, 3)])) for s, d in distances.items()}
        drained = _first(table, f"undrained_{overloaded}", 0.0)
        apart = _first(table, f"undrained_{overloaded}", 0.0, series="drain_first")
        name = f"{overloaded} overloaded"
        found += [
            at_most(
                f"{name}: load distance in rounds 1 to 3 over that of drain_first",
                early[OURS] / early["drain_first"],
                paper="much faster",
                source="Figure 5",
                goal=0.8,
            ),
            at_most(
                f"{name}: rounds until drained over those of drain_first",
                drained / apart,
                paper="similar",
                source="Figure 5",
                goal=1.25,
            ),
            at_most(f"{name}: rounds until drained", drained, goal=12),
        ]
    below_5 = _first(table, "distance_1", 5.0)
    return [
        *found,
        at_most("1 overloaded: rounds until the load distance is below 5", below_5, goal=8),
    ]


def _first(table: Table, metric: str, limit: float, *, series: str = OURS) -> float:
    """Return the first round in which a metric is within a limit in all streams."""
    rounds = [r.x for r in table.rows_of(series, metric) if r.max <= limit]
    return min((float(x) for x in rounds), default=float("inf"))


def _largest(table: Table, series: str, metric: str) -> float:
    """Return the largest value of any period of any run."""
    return max(r.max for r in table.rows_of(series, metric))


def wikipedia(table: Table) -> list[Claim]:
    """Figures 6 to 9. The paper shows one run, so every run of ours is looked at."""
    means = {series: table.means(series, "distance") for series in table.series()}
    mean = {series: float(np.mean(list(found.values()))) for series, found in means.items()}
    pauses = {s: float(np.mean(list(table.means(s, "pause_s").values()))) for s in means}
    return [
        below(
            "local_search: largest load distance of any period of any run",
            _largest(table, OURS, "distance"),
            paper=1,
            source="Figure 6",
        ),
        below("local_search: load distance, mean over periods", mean[OURS], goal=1.0),
        near(
            "flux: largest load distance of any period of any run",
            _largest(table, FLUX, "distance"),
            paper=7,
            source="Figure 6",
            tolerance=2,
        ),
        at_least(
            "flux: load distance relative to local_search's",
            mean[FLUX] / mean[OURS],
            paper="outperformed",
            source="Figure 6",
            goal=1.5,
        ),
        at_least(
            "pkg, merging assumed to be 10% of work: load distance over local_search's",
            mean["pkg"] / mean[OURS],
            paper="not consistently good",
            source="Figure 6",
            goal=1.5,
        ),
        at_most(
            "local_search: most migrations of any period of any run",
            _largest(table, OURS, "migrations"),
            paper=13,
            source="Figure 7",
        ),
        at_most(
            "unrestricted: load distance relative to 13 migrations",
            mean["unrestricted"] / mean[OURS],
            paper="the best",
            source="Figure 8",
            goal=1.0,
        ),
        at_least(
            "10 migrations: largest load distance of any run relative to 13 migrations",
            _largest(table, "local_search_of_10", "distance") / _largest(table, OURS, "distance"),
            paper="significant spikes",
            source="Figure 8",
            goal=1.5,
        ),
        at_least(
            "unrestricted: pauses relative to 13 migrations",
            pauses["unrestricted"] / pauses[OURS],
            paper="very large",
            source="Figure 9",
            goal=2.0,
        ),
    ]
