"""Claims of the ALBIC paper on load balancing (MILP), compared with our measurements."""

from collections.abc import Callable

import numpy as np

from penstock.experiments.results import Claim, Table, at_least, at_most

Check = Callable[[Table], list[Claim]]

OURS, FLUX, BOUND = "local_search", "flux", "lower_bound"


def solvers(table: Table) -> list[Claim]:
    """Figures 2 to 4."""
    found = []
    for workers in (20, 40, 60):
        metric = f"distance_{workers}"
        ours, flux = table.means(OURS, metric), table.means(FLUX, metric)
        worse = [x for x in ours if ours[x] > flux[x] * (1 + 1e-9)]
        found.append(
            Claim(
                claim=f"{workers} workers: load distance at most that of Flux, with any budget",
                paper="all",
                ours="all" if not worse else f"not with {', '.join(map(str, worse))}",
                holds=not worse,
            )
        )
    over = max(
        table.row(OURS, x, f"migrations_{workers}").max - float(x)
        for workers in (20, 40, 60)
        for x in table.means(OURS, f"migrations_{workers}")
    )
    alone = table.mean("highs", 20, "distance_20") / table.mean(OURS, 20, "distance_20")
    return [
        *found,
        at_most(
            "60 workers, 20 migrations: load distance", 0.8, table.mean(OURS, 20, "distance_60")
        ),
        at_least(
            "60 workers, 20 migrations: load distance of Flux (our goal: above)",
            1.2,
            table.mean(FLUX, 20, "distance_60"),
        ),
        at_most(
            "60 workers, 20 migrations: time to plan in ms",
            100.0,
            table.mean(OURS, 20, "plan_ms_60"),
        ),
        Claim(claim="never more migrations than allowed", paper=0, ours=over, holds=over <= 0),
        at_most(
            "20 workers: a free solver alone is as good within 2 s (distance ratio)", 1.0, alone
        ),
    ]


def solver_time(table: Table) -> list[Claim]:
    """Figures 2 to 4: the solver with its longest time limit."""
    found = []
    for workers in (20, 40, 60):
        metric = f"distance_{workers}"
        distances = table.means("highs", metric)
        last = max(distances, key=float)
        alone = distances[last]
        name = f"{workers} workers, {last} s: the solver's load distance"
        found += [
            at_most(f"{name} relative to Flux's", 1.0, alone / table.mean(FLUX, last, metric)),
            at_least(
                f"{name} relative to our search's", 1.0, alone / table.mean(OURS, last, metric)
            ),
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
                f"{name}: load distance in rounds 1 to 3 (drain_first: {early['drain_first']:.3g})",
                float(f"{early['drain_first']:.4g}"),
                early[OURS],
            ),
            at_most(f"{name}: rounds until drained (drain_first: {apart:g})", 12, drained),
        ]
    below = _first(table, "distance_1", 5.0)
    return [*found, at_most("1 overloaded: rounds until the load distance is below 5", 8, below)]


def _first(table: Table, metric: str, limit: float, *, series: str = OURS) -> float:
    """Return the first round in which a metric is within a limit in all streams."""
    rounds = [
        r.x for r in table.rows if (r.series, r.metric) == (series, metric) and r.max <= limit
    ]
    return min((float(x) for x in rounds), default=float("inf"))


def wikipedia(table: Table) -> list[Claim]:
    """Figures 6 to 9."""
    means = {series: table.means(series, "distance") for series in table.series()}
    mean = {series: float(np.mean(list(found.values()))) for series, found in means.items()}
    pauses = {s: float(np.mean(list(table.means(s, "pause_s").values()))) for s in means}
    most = max(r.max for r in table.rows if (r.series, r.metric) == (OURS, "migrations"))
    return [
        at_most("load distance below 1 point, mean over periods", 1.0, mean[OURS]),
        at_most(
            "load distance below 1 point, worst mean of a period", 1.0, max(means[OURS].values())
        ),
        at_least("Flux: load distance relative to ours", 1.5, mean[FLUX] / mean[OURS]),
        at_least(
            "PKG, merging assumed to be 10% of the work: load distance relative to ours",
            1.5,
            mean["pkg"] / mean[OURS],
        ),
        at_most("never more than 13 migrations", 13, most),
        at_most(
            "unrestricted: load distance relative to 13 migrations",
            1.0,
            mean["unrestricted"] / mean[OURS],
        ),
        at_least(
            "unrestricted: pauses relative to 13 migrations",
            2.0,
            pauses["unrestricted"] / pauses[OURS],
        ),
        at_least(
            "10 migrations: load distance relative to 13 migrations",
            1.0,
            mean["local_search_of_10"] / mean[OURS],
        ),
    ]
