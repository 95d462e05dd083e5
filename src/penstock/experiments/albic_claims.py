"""Claims of the ALBIC paper on balance with collocation, compared with our measurements."""

from collections.abc import Callable

import numpy as np

from penstock.experiments.claims import Claim, above, at_least, at_most, below, near
from penstock.experiments.results import Table

Check = Callable[[Table], list[Claim]]

OURS, PUBLISHED, COLA = "albic", "albic_as_published", "cola"
BOTH = PUBLISHED, OURS


def collocation(table: Table) -> list[Claim]:
    """Figure 10."""
    source = "Figure 10"
    cola, far = table.means(COLA, "collocation"), table.means(COLA, "distance")
    claims = []
    for series in BOTH:
        own, distance = table.means(series, "collocation"), table.means(series, "distance")
        claims += [
            at_least(
                f"{series}: collocation above COLA's, largest over the figure, in points",
                max(own[x] - cola[x] for x in own),
                paper=10,
                source=source,
            ),
            at_least(
                f"{series}: collocation above COLA's, smallest over the figure",
                min(own[x] - cola[x] for x in own),
                paper="outperforms COLA",
                source=source,
                goal=0.0,
            ),
            below(
                f"{series}: load distance over COLA's, largest over the figure",
                max(distance[x] / far[x] for x in own),
                paper="smaller",
                source=source,
                goal=1.0,
            ),
            _within_budget(table, series, 50, name="half 1-1"),
            at_least(f"{series}: half 1-1, collocation in %", own[50], goal=50.0),
        ]
    return [
        *claims,
        at_most(
            "albic: half 1-1, rounds until 50% collocation, worst run",
            table.row(OURS, 50, "rounds_to_50").max,
            goal=50,
        ),
        at_most(
            "albic: half 1-1, load distance, mean over rounds",
            table.mean(OURS, 50, "distance"),
            goal=0.6,
        ),
    ]


def _within_budget(table: Table, series: str, x: float | str, *, name: str) -> Claim:
    return at_most(
        f"{series}: {name}, most migrations in a round",
        table.row(series, x, "most_migrations").max,
        paper=20,
        source="section 5.3",
    )


def sizes(table: Table) -> list[Claim]:
    """Figure 11."""
    claims = []
    for x in table.means(OURS, "collocation"):
        for series in BOTH:
            share, cola = (table.mean(s, x, "collocation") for s in (series, COLA))
            distance, far = (table.mean(s, x, "distance") for s in (series, COLA))
            claims += [
                above(
                    f"{series}, {x}: collocation above COLA's, in points",
                    share - cola,
                    paper="significantly outperforms",
                    source="Figure 11",
                    goal=0.0,
                ),
                below(
                    f"{series}, {x}: load distance over COLA's",
                    distance / far,
                    paper="significantly outperforms",
                    source="Figure 11",
                    goal=1.0,
                ),
                _within_budget(table, series, x, name=str(x)),
            ]
        claims += [
            at_least(f"albic, {x}: collocation in %", table.mean(OURS, x, "collocation"), goal=50),
            at_most(f"albic, {x}: load distance", table.mean(OURS, x, "distance"), goal=0.6),
        ]
    return claims


# Figure of each job.
SOURCES = {"2": "Figure 12", "3": "Figure 13", "4": "Figure 14"}
# Statements of the paper about ALBIC beside COLA, by job: on collocation, and on load distance.
REACHED = {"2": "the same", "3": "a similar trend", "4": "similar"}
LOWER: dict[str, str] = {"2": "consistently lower", "3": "a similar trend"}
REDUCED = {"3": "a similar trend", "4": "reduced"}
# Jobs whose number of migrations is in the text.
MIGRATED = "2", "4"


def airline(table: Table) -> list[Claim]:
    """Figures 12 to 14."""
    claims = []
    for job, source in SOURCES.items():
        for series in BOTH:
            own, cola = (_late(table, s, f"collocation_{job}") for s in (series, COLA))
            claims += [
                at_least(
                    f"{series}, job {job}: collocation at the end over COLA's",
                    own / cola,
                    paper=REACHED[job],
                    source=source,
                    goal=0.9,
                ),
                at_most(
                    f"{series}, job {job}: load distance, mean over weeks, over COLA's",
                    _mean(table, series, f"distance_{job}") / _mean(table, COLA, f"distance_{job}"),
                    paper=LOWER.get(job),
                    source=source if job in LOWER else None,
                    goal=1.0,
                ),
                at_most(
                    f"{series}, job {job}: most migrations a week",
                    max(table.means(series, f"migrations_{job}").values()),
                    paper=10 if job in MIGRATED else None,
                    source=source if job in MIGRATED else None,
                    goal=None if job in MIGRATED else 10,
                ),
                *_index(table, series, job),
            ]
    return [*claims, *_of_cola(table)]


def _index(table: Table, series: str, job: str) -> list[Claim]:
    """Return claims on the load index at the end, with the cost of migrations."""
    found = _late(table, series, f"load_index_{job}")
    name = f"{series}, job {job}: load index at the end, in %"
    if job == "2":
        return [near(name, found, paper=50, source=SOURCES[job], tolerance=3)]
    return [
        at_most(name, found, paper=REDUCED[job], source=SOURCES[job], goal=75),
        below(
            f"{series}, job {job}: load index at the end over COLA's",
            found / _late(table, COLA, f"load_index_{job}"),
            goal=1.0,
        ),
    ]


def _of_cola(table: Table) -> list[Claim]:
    """Return the paper's claims about COLA, and about job 3 beside job 2."""
    halves = [
        near(
            f"{series}: collocation at the end of job 3 over that of job 2",
            _late(table, series, "collocation_3") / _late(table, series, "collocation_2"),
            paper=0.5,
            source="Figure 13",
            tolerance=0.05,
        )
        for series in (COLA, *BOTH)
    ]
    return [
        near(
            "cola, job 2: reduction of the load at the end, in %",
            100 - _late(table, COLA, "load_index_2"),
            paper=25,
            source="Figure 12",
            tolerance=5,
        ),
        near(
            "cola, job 2: migrations a week",
            _mean(table, COLA, "migrations_2"),
            paper=200,
            source="Figure 12",
            tolerance=20,
        ),
        *halves,
        near(
            "cola, job 4: collocation at the end, in %",
            _late(table, COLA, "collocation_4"),
            paper=61,
            source="Figure 14",
            tolerance=5,
        ),
    ]


def _mean(table: Table, series: str, metric: str) -> float:
    return float(np.mean(list(table.means(series, metric).values())))


def _late(table: Table, series: str, metric: str) -> float:
    """Return the mean over the last tenth of the periods."""
    values = list(table.means(series, metric).values())
    return float(np.mean(values[-max(1, len(values) // 10) :]))
