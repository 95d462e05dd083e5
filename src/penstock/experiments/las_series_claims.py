"""Claims of the LAS paper on streams that unfold (Figures 9 and 11), and our measurements."""

import numpy as np

from penstock.experiments.claims import Claim, at_least, at_most, near
from penstock.experiments.las_claims import BEST, BOTH, STRAW
from penstock.experiments.results import Table

LIMIT_MS = 64.0


def timeseries(table: Table) -> list[Claim]:
    """Figure 9: phases of five points each."""
    source = "Figure 9"
    starts = {name: 20_000 * i for i, name in enumerate("ABCDEFG")}

    def points(series: str, phase: str, metric: str = "queuing_ms") -> list[float]:
        ends = (starts[phase] + 4_000 * (i + 1) for i in range(5))
        return [table.mean(series, end, metric) for end in ends]

    def mean(series: str, phase: str, *, skip: int) -> float:
        return float(np.mean(points(series, phase)[skip:]))

    claims = []
    for series in BOTH:
        claims += [
            *(
                at_most(
                    f"{series}, phase {phase} ({what}): waiting time over Full Knowledge's",
                    mean(series, phase, skip=1) / mean(BEST, phase, skip=1),
                    paper=said,
                    source=source,
                    goal=1.1,
                )
                for phase, what, said in (
                    ("B", "rate doubled", "correctly managed"),
                    ("D", "other frequent key", "close to the threshold"),
                )
            ),
            at_least(
                f"{series}, phase F (costs doubled): first 4,000 records, in ms",
                points(series, "F")[0],
                paper="largely above 64",
                source=source,
                goal=2 * LIMIT_MS,
            ),
            near(
                f"{series}, phase F: last 12,000 records, farthest from 64 ms",
                max(points(series, "F")[2:], key=lambda ms: abs(ms - LIMIT_MS)),
                paper="converges to 64",
                source=source,
                goal=LIMIT_MS,
                tolerance=0.25 * LIMIT_MS,
            ),
            at_least(
                f"{series}, phase F: Straw-Man's waiting time over its own",
                mean(STRAW, "F", skip=2) / mean(series, "F", skip=2),
                paper="Straw-Man diverges",
                source=source,
                goal=2.0,
            ),
        ]
    return claims + [
        at_most(
            f"{series}, phase E (slack): largest dropped ratio",
            max(points(series, "E", "dropped_ratio")),
            paper=0,
            source=source,
        )
        for series in (STRAW, *BOTH, BEST)
    ]


def application(table: Table) -> list[Claim]:
    """Figure 11."""

    def mean(series: str, metric: str) -> float:
        return float(np.mean(list(table.means(series, metric).values())))

    source = "Figure 11"
    claims = []
    for series in BOTH:
        claims += [
            at_most(
                f"{series}: completion time over that of Full Knowledge",
                mean(series, "completion_ms") / mean(BEST, "completion_ms"),
                paper="extremely close",
                source=source,
                goal=1.1,
            ),
            at_least(
                f"{series}: completion time of Straw-Man over its own",
                mean(STRAW, "completion_ms") / mean(series, "completion_ms"),
                paper=10,
                source=source,
            ),
        ]
    for series in (*BOTH, BEST):
        shed = mean(series, "dropped_ratio")
        claims.append(
            Claim(
                claim=f"{series}: mean share of dropped records",
                paper="0.05 to 0.10",
                source=source,
                ours=float(f"{shed:.4g}"),
                holds=0.05 <= shed <= 0.10,
            )
        )
    straw = mean(STRAW, "dropped_ratio")
    return [
        *claims,
        at_most("Straw-Man: mean share of dropped records", straw, paper=0, source=source),
    ]
