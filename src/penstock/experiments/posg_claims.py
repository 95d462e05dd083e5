"""Claims of the POSG paper on its figures, compared with our measurements."""

import math
from itertools import pairwise

from penstock.experiments.claims import Claim, above, at_least, at_most, near, ordered
from penstock.experiments.results import Table

PUBLISHED, OURS, FRUGAL, BEST = "posg_as_published", "posg", "posg_frugal", "full_knowledge"
BOTH = PUBLISHED, OURS

# Figure 10: the record at which instances change, and by which everything has adapted here.
CHANGE, ADAPTED = 75_000, 90_000


def _least(table: Table, series: str, metric: str = "speedup") -> float:
    return min(table.means(series, metric).values())


def _never_slower(table: Table) -> list[Claim]:
    """Return a goal of ours, not of the paper: `posg` is never slower than round robin."""
    return [at_least("posg: smallest mean speed-up in this figure", _least(table, OURS), goal=0.98)]


def gain(table: Table, series: str, x: float | str) -> float:
    """Return by how many percent a series is faster than round robin."""
    return 100 * (table.mean(series, x) - 1)


def _gains(table: Table, what: str, *, paper: float, x: float | str, source: str) -> list[Claim]:
    return [
        at_least(f"{s}: gain {what}, in %", gain(table, s, x), paper=paper, source=source)
        for s in BOTH
    ]


def _speedups(table: Table, what: str, *, paper: float, x: float | str) -> list[Claim]:
    return [
        at_least(f"{s}: speed-up {what}", table.mean(s, x), paper=paper, source="Figure 5")
        for s in BOTH
    ]


def distributions(table: Table) -> list[Claim]:
    """Figure 4."""
    source = "Figure 4"
    claims = [
        *_gains(table, "for uniform keys", paper=6, x="uniform", source=source),
        *_gains(table, "at Zipf-0.5", paper=6, x="zipf-0.5", source=source),
        *_gains(table, "at Zipf-1.0", paper=25, x="zipf-1.0", source=source),
    ]
    fastest = table.row("round_robin", "zipf-1.5", "completion_ms").min
    best = table.means(BEST, "completion_ms")
    for series in BOTH:
        slowest = table.row(series, "zipf-1.5", "completion_ms").max
        steady = table.mean(series, "zipf-2.5", "steady_completion_ms")
        own = table.means(series, "completion_ms")
        claims += [
            above(
                f"{series}: smallest speed-up over all distributions",
                _least(table, series),
                paper="always better",
                source=source,
                goal=1.0,
            ),
            at_most(
                f"{series}: time of Full Knowledge over its own, any distribution",
                max(best[x] / own[x] for x in own),
                paper="Full Knowledge outperforms POSG",
                source=source,
                goal=1.0,
            ),
            Claim(
                claim=f"{series}: at Zipf-1.5 worst stream against best one of round robin",
                paper="max POSG < min round robin",
                source=source,
                ours=f"{slowest:.0f} ms, {fastest:.0f} ms",
                holds=slowest < fastest,
            ),
            at_most(
                f"{series}: time at Zipf-2.5 over that of Full Knowledge, steady state",
                steady / table.mean(BEST, "zipf-2.5", "steady_completion_ms"),
                paper="matches",
                source=source,
                goal=1.1,
            ),
        ]
    return [*claims, *_never_slower(table)]


def provisioning(table: Table) -> list[Claim]:
    """Figure 5."""
    sized = [round(1 + i / 100, 2) for i in range(10)]
    gained = table.mean(OURS, 1.02, "steady_speedup") - 1
    possible = table.mean(BEST, 1.02, "steady_speedup") - 1
    goals = {1.0: 1.45, 1.02: 2.2, 1.09: 1.35, 1.15: 1.20}
    return [
        *(
            at_least(
                f"{series}: smallest speed-up from 100% to 109%",
                min(table.mean(series, x) for x in sized),
                paper=1.15,
                source="Figure 5",
            )
            for series in BOTH
        ),
        *_speedups(table, "at 102%", paper=1.26, x=1.02),
        *_speedups(table, "at 115%", paper=1.07, x=1.15),
        *(
            near(
                f"{series}: provisioning with the largest speed-up, in %",
                100 * _peak(table, series),
                paper=102,
                source="Figure 5",
                tolerance=1,
            )
            for series in BOTH
        ),
        *(
            at_least(f"posg: speed-up at {x:.0%}, our aim", table.mean(OURS, x), goal=goal)
            for x, goal in goals.items()
        ),
        at_least(
            "posg: share of Full Knowledge's gain in steady state at 102%",
            gained / possible,
            goal=0.5,
        ),
        *_messages(table, 1.02),
        *_never_slower(table),
    ]


def _peak(table: Table, series: str) -> float:
    """Return the provisioning with the largest speed-up."""
    means = table.means(series)
    return float(max(means, key=means.__getitem__))


def _messages(table: Table, x: float | str) -> list[Claim]:
    """Return our own limits of messages; those of the paper are in `application`."""
    sent = {s: table.mean(s, x, "messages_per_100") for s in (PUBLISHED, OURS, FRUGAL)}
    return [
        at_most("posg: messages per 100 records", sent[OURS], goal=1.1),
        at_most(
            "posg_frugal: messages, relative to posg_as_published",
            sent[FRUGAL] / sent[PUBLISHED],
            goal=1.0,
        ),
    ]


def max_cost(table: Table) -> list[Claim]:
    """Figure 6."""
    means = [
        at_least(
            f"{s}: mean speed-up over the figure", _average(table, s), paper=1.19, source="Figure 6"
        )
        for s in BOTH
    ]
    return [*means, *_never_slower(table)]


def cost_values(table: Table) -> list[Claim]:
    """Figure 7."""
    claims, source = [], "Figure 7"
    for series in BOTH:
        gain = 100 * (_average(table, series) - 1)
        claims += [
            at_least(f"{series}: mean gain over the figure, in %", gain, paper=19, source=source),
            ordered(
                f"{series}: deviation between streams in ms, with 2 costs and with 64",
                _deviation(table, series, 2.0),
                _deviation(table, series, 64.0),
                paper="variance decreases",
                source=source,
                grows=False,
            ),
        ]
    return [*claims, *_never_slower(table)]


def _average(table: Table, series: str) -> float:
    means = table.means(series).values()
    return sum(means) / len(means)


def _deviation(table: Table, series: str, x: float) -> float:
    """Return the standard deviation of completion times between streams."""
    row = table.row(series, x, "completion_ms")
    return row.se * math.sqrt(row.n)


def instances(table: Table) -> list[Claim]:
    """Figure 8."""
    claims = []
    for series in BOTH:
        means = table.means(series)
        claims.append(
            near(
                f"{series}: speed-up with 1 instance",
                means[1.0],
                paper=1.0,
                source="Figure 8",
                tolerance=0.0,
            )
        )
        claims.append(
            ordered(
                f"{series}: speed-up with 2 and with 10 instances",
                means[2.0],
                means[10.0],
                paper="increases",
                source="Figure 8",
            )
        )
        claims += [
            near(
                f"{series}: growth of the speed-up from {a:.0f} to {b:.0f} instances, in %",
                100 * (means[b] / means[a] - 1),
                paper=paper,
                source="Figure 8",
                tolerance=1,
            )
            for a, b, paper in ((2.0, 3.0, 4), (9.0, 10.0, 1))
        ]
    return [*claims, *_never_slower(table)]


def precision(table: Table) -> list[Claim]:
    """Figure 9."""
    claims = []
    for series in BOTH:
        means = table.means(series)
        tenfold = (means[0.001] / means[0.9]) ** (1 / math.log10(0.9 / 0.001))
        fine = [table.row(series, x, "speedup").min for x in means if float(x) <= 0.09]
        claims += [
            at_least(
                f"{series}: growth of the speed-up with ten times the memory, in %",
                100 * (tenfold - 1),
                paper=30,
                source="Figure 9",
            ),
            above(
                f"{series}: smallest speed-up of any stream for epsilon <= 0.09",
                min(fine),
                paper=1.0,
                source="Figure 9",
            ),
        ]
    return [*claims, *_never_slower(table)]


def timeseries(table: Table) -> list[Claim]:
    """Figure 10: the paper has one stream; the earliest of ours is compared with it."""
    source = "Figure 10"
    claims = []
    for series in BOTH:
        claims += [
            at_most(
                f"{series}: record of the first RUN, earliest stream",
                table.row(series, "whole", "record_of_first_run").min,
                paper=10_690,
                source=source,
            ),
            *(
                above(
                    f"{series}: mean speed-up of records {start:,} to {stop:,}",
                    _between(table, series, start=start, stop=stop),
                    paper=said,
                    source=source,
                    goal=1.0,
                )
                for start, stop, said in (
                    (20_000, CHANGE, "improves with respect to Round-Robin"),
                    (ADAPTED, 2 * CHANGE, "recovers"),
                )
            ),
        ]
    after = [v for x, v in _bins(table, OURS).items() if x > ADAPTED]
    updated = table.mean(PUBLISHED, "whole", "record_of_update")
    return [
        *claims,
        at_most(
            f"{PUBLISHED}: record of the first matrices after the change, mean of streams",
            updated,
            paper=84_912,
            source=source,
        ),
        at_least("posg: smallest speed-up of any 2,000 records", _least(table, OURS), goal=1.0),
        at_least("posg: smallest speed-up after record 90,000", min(after), goal=1.25),
    ]


def _bins(table: Table, series: str) -> dict[float, float]:
    """Return the speed-up of every 2,000 records, by the number of the last one."""
    return {float(x): v for x, v in table.means(series).items() if not isinstance(x, str)}


def _between(table: Table, series: str, *, start: int, stop: int) -> float:
    found = [v for x, v in _bins(table, series).items() if start < x <= stop]
    return sum(found) / len(found)


def application(table: Table) -> list[Claim]:
    """Figure 12."""
    source, claims = "Figure 12", []
    for series in BOTH:
        means = table.means(series)
        several = [v for k, v in means.items() if k != 1.0]
        times = [v for _, v in sorted(table.means(series, "completion_ms").items())]
        claims += [
            at_least(
                f"{series}: mean speed-up for 2 to 10 instances",
                sum(several) / len(several),
                paper=1.37,
                source=source,
            ),
            *_gains_at_ten(table, series, source),
            at_most(
                f"{series}: largest time of k + 1 instances over that of k",
                max(after / before for before, after in pairwise(times)),
                paper="always decreases",
                source=source,
                goal=1.0,
            ),
        ]
    claims += [
        at_most(
            f"{series}: messages for 500,000 records, 5 instances",
            5_000 * table.mean(series, 5.0, "messages_per_100"),
            paper=916,
            source=source,
        )
        for series in (PUBLISHED, FRUGAL, OURS)
    ]
    return [*claims, *_never_slower(table)]


def _gains_at_ten(table: Table, series: str, source: str) -> list[Claim]:
    return [
        at_least(
            f"{series}: gain with 10 instances, in %",
            gain(table, series, 10.0),
            paper=16,
            source=source,
        )
    ]
