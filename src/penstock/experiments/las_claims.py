"""Claims of the LAS paper on its figures, compared with our measurements."""

from collections.abc import Callable

import numpy as np

from penstock.experiments.results import Claim, Table, at_least, at_most

Check = Callable[[Table], list[Claim]]

PUBLISHED, OURS, CHEAP, BEST = "las_as_published", "las", "las_cheap_first", "full_knowledge"
LIMIT_MS = 6.4


def _more_dropped(table: Table, series: str, xs: list[float | str]) -> float:
    """Return the largest difference to the dropped share of Full Knowledge, in points."""
    return 100 * max(
        table.mean(series, x, "dropped_ratio") - table.mean(BEST, x, "dropped_ratio") for x in xs
    )


def provisioning(table: Table) -> list[Claim]:
    """Figure 4."""
    under = [x for x in table.means(OURS, "queuing_ms") if float(x) >= 0.1]
    worst = {s: max(table.mean(s, x, "queuing_ms") for x in under) for s in (PUBLISHED, OURS)}
    blind = min(table.mean(s, x, "queuing_ms") for s in ("random_drop", "mean_cost") for x in under)
    best = [table.mean(BEST, x, "queuing_ms") for x in under]
    claims = [
        at_most(f"{s}: largest mean waiting time from 10% to 90% (goal 7.0 ms)", 7.0, worst[s])
        for s in (PUBLISHED, OURS)
    ]
    claims += [
        at_most("las: the same waiting time (our aim)", 6.6, worst[OURS]),
        at_most(
            "las: drops above those of Full Knowledge, in points (goal 2.5)",
            2.5,
            _more_dropped(table, OURS, list(under)),
        ),
        at_most("las: the same points (our aim)", 1.5, _more_dropped(table, OURS, list(under))),
        at_least("Base Line and Straw-Man: least mean waiting time (far above 6.4)", 12.8, blind),
        Claim(
            claim="Full Knowledge: mean waiting time equals the target of 6.4 ms",
            paper="6.40 +- 0.01",
            ours=f"{min(best):.3f} to {max(best):.3f}",
            holds=all(abs(ms - LIMIT_MS) <= 0.01 for ms in best),
        ),
    ]
    if 0.25 in table.means(OURS, "queuing_ms"):
        claims += _at_a_quarter(table)
    if -0.1 in table.means(OURS, "queuing_ms"):
        dropped = {s: table.mean(s, -0.1, "dropped_ratio") for s in (OURS, CHEAP, BEST)}
        claims += [
            Claim(
                claim=f"{s}: share dropped at -10% (at most that of Full Knowledge)",
                paper=f"{dropped[BEST]:.5f}",
                ours=f"{dropped[s]:.5f}",
                holds=dropped[s] <= max(dropped[BEST], 0.0005),
            )
            for s in (OURS, CHEAP)
        ]
    return claims


def _at_a_quarter(table: Table) -> list[Claim]:
    shed, kept_ms = table.mean(CHEAP, 0.25, "dropped_ratio"), table.mean(CHEAP, 0.25, "queuing_ms")
    exact = table.mean(BEST, 0.25, "dropped_ratio")
    return [
        Claim(
            claim="Full Knowledge: dropped ratio at 25%",
            paper="0.2525 +- 0.002",
            ours=f"{exact:.4f}",
            holds=abs(exact - 0.2525) <= 0.002,
        ),
        at_most("las_cheap_first: dropped ratio at 25% (goal 0.22)", 0.22, shed),
        at_most("las_cheap_first: the same (our aim)", 0.19, shed),
        at_most("las_cheap_first: mean waiting time at 25% (goal 7.0 ms)", 7.0, kept_ms),
        Claim(
            claim="the paper's optimality: no shedder drops less than Full Knowledge at 25%",
            paper=f"{exact:.3f}",
            ours=f"{shed:.3f} by las_cheap_first",
            holds=shed >= exact,
        ),
    ]


def _held(table: Table, series: str, metric: str = "queuing_ms") -> float:
    """Return the largest ratio of mean waiting time and target, where x is the target."""
    return max(mean / float(x) for x, mean in table.means(series, metric).items())


def threshold(table: Table) -> list[Claim]:
    """Figure 5."""
    large = max(table.means(OURS, "queuing_ms"), key=float)
    straw = table.mean("mean_cost", large, "queuing_ms")
    ours = table.mean(OURS, large, "queuing_ms")
    return [
        at_most("las: largest waiting time over its target", 1.1, _held(table, OURS)),
        at_most("las_cheap_first: largest waiting time over its target", 1.1, _held(table, CHEAP)),
        at_least(f"Straw-Man waits longer than las at {float(large):g} ms", 1.0, straw / ours),
        at_most(
            "las: drops above those of Full Knowledge, in points",
            2.5,
            _more_dropped(table, OURS, list(table.means(OURS, "queuing_ms"))),
        ),
    ]


def max_cost(table: Table) -> list[Claim]:
    """Figure 6."""
    ratios = list(table.means(OURS, "shedding_ratio").values())
    return [
        at_most("las: largest waiting time over its target", 1.1, _held(table, OURS)),
        at_least("las: shedding ratio is always positive (smallest)", 0.0, min(ratios)),
    ]


def distributions(table: Table) -> list[Claim]:
    """Figure 7."""
    ours = table.means(OURS, "queuing_ms")
    blind = min(min(table.means(s, "queuing_ms").values()) for s in ("random_drop", "mean_cost"))
    ratio = table.means(OURS, "shedding_ratio")
    return [
        at_most(
            "las: largest mean waiting time over the figure (goal 7.0 ms)", 7.0, max(ours.values())
        ),
        at_least("Base Line and Straw-Man: least mean waiting time (far above 6.4)", 12.8, blind),
        Claim(
            claim="las: sheds less when keys are more skewed (uniform -> Zipf-3.0)",
            paper="decreases",
            ours=f"{ratio['uniform']:.3f} -> {ratio['zipf-3.0']:.3f}",
            holds=ratio["zipf-3.0"] < ratio["uniform"],
        ),
    ]


def precision(table: Table) -> list[Claim]:
    """Figure 8."""
    fine = [x for x in table.means(OURS, "queuing_ms") if float(x) <= 0.1]
    return [
        at_most(
            f"{s}: largest mean waiting time for epsilon <= 0.1 (paper: at most 6.4 ms)",
            LIMIT_MS,
            max(table.mean(s, x, "queuing_ms") for x in fine),
        )
        for s in (PUBLISHED, OURS)
    ] + [
        at_most(
            "las: largest mean waiting time over the figure (goal 7.0 ms)",
            7.0,
            max(table.means(OURS, "queuing_ms").values()),
        ),
        Claim(
            claim="las: drops fewer records with more memory (epsilon 1.0 -> 0.001)",
            paper="decreases",
            ours=f"{table.mean(OURS, 1.0, 'dropped_ratio'):.3f} -> "
            f"{table.mean(OURS, 0.001, 'dropped_ratio'):.3f}",
            holds=table.mean(OURS, 0.001, "dropped_ratio") < table.mean(OURS, 1.0, "dropped_ratio"),
        ),
    ]


def timeseries(table: Table) -> list[Claim]:
    """Figure 9: phases of five points each."""
    phase = dict(zip("ABCDEFG", range(7), strict=True))

    def mean(series: str, name: str, metric: str = "queuing_ms", *, skip: int = 0) -> float:
        ends = [4_000 * (5 * phase[name] + i + 1) for i in range(skip, 5)]
        return float(np.mean([table.mean(series, end, metric) for end in ends]))

    late = [table.mean(OURS, 100_000 + end, "queuing_ms") for end in (12_000, 16_000, 20_000)]
    straw, ours = mean("mean_cost", "F", skip=2), mean(OURS, "F", skip=2)
    dropped = {s: mean(s, "E", "dropped_ratio") for s in ("mean_cost", OURS, BEST)}
    return [
        at_most(
            "las, phase B (rate doubled): waiting time over that of Full Knowledge",
            1.1,
            mean(OURS, "B", skip=1) / mean(BEST, "B", skip=1),
        ),
        at_most(
            "las, phase D (other frequent key): waiting time over that of Full Knowledge",
            1.1,
            mean(OURS, "D", skip=1) / mean(BEST, "D", skip=1),
        ),
        at_most(
            "all shedders, phase E (slack): largest dropped ratio", 0.001, max(dropped.values())
        ),
        Claim(
            claim="las, phase F (costs doubled): back at the target of 64 ms within 10,000 records",
            paper="within 25%",
            ours=" ".join(f"{ms:.0f}" for ms in late),
            holds=all(abs(ms / 64 - 1) <= 0.25 for ms in late),
        ),
        at_least("Straw-Man, phase F: waiting time over that of las", 2.0, straw / ours),
    ]


def application(table: Table) -> list[Claim]:
    """Figure 11."""
    means = {
        s: float(np.mean(list(table.means(s, "completion_ms").values())))
        for s in ("mean_cost", OURS, BEST)
    }
    shed = [float(np.mean(list(table.means(s, "dropped_ratio").values()))) for s in (OURS, BEST)]
    return [
        at_most(
            "las: completion time over that of Full Knowledge (paper: extremely close)",
            1.1,
            means[OURS] / means[BEST],
        ),
        at_least(
            "Straw-Man: completion time over that of las (paper: an order of magnitude)",
            10.0,
            means["mean_cost"] / means[OURS],
        ),
        Claim(
            claim="las and Full Knowledge drop 5% to 10% of the records",
            paper="0.05 to 0.10",
            ours=f"{shed[0]:.4f} and {shed[1]:.4f}",
            holds=all(0.05 <= share <= 0.10 for share in shed),
        ),
    ]
