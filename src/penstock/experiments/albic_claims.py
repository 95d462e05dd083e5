"""Claims of the ALBIC paper on balance with collocation, compared with our measurements."""

from collections.abc import Callable

import numpy as np

from penstock.experiments.results import Claim, Table, at_least, at_most

Check = Callable[[Table], list[Claim]]

OURS, PUBLISHED, COLA = "albic", "albic_as_published", "cola"


def collocation(table: Table) -> list[Claim]:
    """Figure 10."""
    ours, cola = table.means(OURS, "collocation"), table.means(COLA, "collocation")
    ahead = min(ours[x] - cola[x] for x in ours)
    return [
        at_least("half 1-1: collocation in %", 50.0, table.mean(OURS, 50, "collocation")),
        at_most(
            "half 1-1: rounds until 50% collocation", 50, table.row(OURS, 50, "rounds_to_50").max
        ),
        *_both(table, 50, "half 1-1"),
        at_least(
            "collocation above that of COLA in points, for any share (paper: up to 10)", 0.0, ahead
        ),
        at_least(
            "as published: half 1-1, collocation in % after 60 rounds",
            50.0,
            table.mean(PUBLISHED, 50, "collocation"),
        ),
    ]


def sizes(table: Table) -> list[Claim]:
    """Figure 11."""
    found = []
    for x in table.means(OURS, "collocation"):
        share, cola = table.mean(OURS, x, "collocation"), table.mean(COLA, x, "collocation")
        found.append(at_least(f"{x}: collocation in % (COLA: {cola:.3g})", 50.0, share))
        found += _both(table, x, str(x))
    return found


def _both(table: Table, x: float | str, name: str) -> list[Claim]:
    """Return the claims of any run: on balance, and on migrations."""
    distance, cola = table.mean(OURS, x, "distance"), table.mean(COLA, x, "distance")
    moved = table.mean(COLA, x, "migrations")
    return [
        at_most(f"{name}: load distance, mean over rounds (COLA: {cola:.3g})", 0.6, distance),
        at_most(
            f"{name}: most migrations in a round (COLA: {moved:.0f} on average)",
            20,
            table.row(OURS, x, "most_migrations").max,
        ),
    ]


def airline(table: Table) -> list[Claim]:
    """Figures 12 to 14."""
    found = []
    for job, index in (("2", 50.0), ("3", 75.0), ("4", 75.0)):
        ours, cola = (_late(table, series, f"collocation_{job}") for series in (OURS, COLA))
        moved = _mean(table, COLA, f"migrations_{job}")
        found += [
            at_least(
                f"job {job}: collocation in % at the end, relative to COLA's", 0.9, ours / cola
            ),
            at_most(
                f"job {job}: load index in % at the end (COLA: "
                f"{_late(table, COLA, f'load_index_{job}'):.3g})",
                index,
                _late(table, OURS, f"load_index_{job}"),
            ),
            at_most(
                f"job {job}: load distance, mean over weeks, relative to COLA's",
                1.0,
                _mean(table, OURS, f"distance_{job}") / _mean(table, COLA, f"distance_{job}"),
            ),
            at_most(
                f"job {job}: migrations a week (COLA: {moved:.0f})",
                10,
                max(table.means(OURS, f"migrations_{job}").values()),
            ),
        ]
    return found


def _mean(table: Table, series: str, metric: str) -> float:
    return float(np.mean(list(table.means(series, metric).values())))


def _late(table: Table, series: str, metric: str) -> float:
    """Return the mean over the last tenth of the periods."""
    values = list(table.means(series, metric).values())
    return float(np.mean(values[-max(1, len(values) // 10) :]))
