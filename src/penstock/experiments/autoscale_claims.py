"""Claims of the AUTOSCALE paper on its figures, compared with our measurements."""

from collections.abc import Callable

from penstock.experiments.results import Claim, Table, at_least, at_most

Check = Callable[[Table], list[Claim]]

OURS, PUBLISHED, EXPERT = "preventive", "preventive_as_published", "expert"
OTHERS = "threshold", "rate_based", PUBLISHED


def _worst(table: Table, series: str, metric: str, *, x: float | str = "whole") -> float:
    return table.row(series, x, metric).max


def _none_better(table: Table, x: float | str = "whole") -> Claim:
    """Return a goal of ours: no other scaler is better by 5% in both latency and instances."""
    latency = table.mean(OURS, x, "mean_latency_s")
    instances = table.mean(OURS, x, "instances_ratio")
    better = [
        series
        for series in OTHERS
        if table.mean(series, x, "mean_latency_s") < 0.95 * latency
        and table.mean(series, x, "instances_ratio") < 0.95 * instances
    ]
    where = "" if x == "whole" else f"{x}: "
    return Claim(
        claim=f"{where}no other scaler is better by 5% in both latency and instances",
        paper="none",
        ours=", ".join(better) or "none",
        holds=not better,
    )


def _in_time(table: Table, x: float | str = "whole") -> Claim:
    where = "" if x == "whole" else f"{x}: "
    worst = _worst(table, OURS, "timed_out", x=x)
    return Claim(
        claim=f"{where}preventive: no record timed out, for any seed",
        paper=0,
        ours=worst,
        holds=worst == 0,
    )


def survives(table: Table) -> list[Claim]:
    """Return goals for topologies without numbers in the paper."""
    instances = table.mean(OURS, "whole", "instances_ratio")
    return [
        _in_time(table),
        at_most("preventive: instances relative to the expert's", 1.0, instances),
        _none_better(table),
    ]


def three_steps(table: Table) -> list[Claim]:
    """Figure 9."""
    instances = {s: table.mean(s, "whole", "instances_ratio") for s in (PUBLISHED, OURS)}
    return [
        at_least(
            "the minimum configuration collapses (records timed out)",
            1.0,
            table.mean("minimum", "whole", "timed_out"),
        ),
        *(
            at_most(
                f"{series}: instances relative to the expert's (paper: 37.5% less)",
                0.625,
                instances[series],
            )
            for series in (PUBLISHED, OURS)
        ),
        at_most("preventive: instances relative to the expert's (our goal)", 0.60, instances[OURS]),
        at_most(
            "preventive: mean latency in seconds (our goal)",
            0.10,
            table.mean(OURS, "whole", "mean_latency_s"),
        ),
        _in_time(table),
        _none_better(table),
    ]


def five_steps(table: Table) -> list[Claim]:
    """Figure 10."""
    published = _worst(table, PUBLISHED, "timed_out")
    return [
        at_least(
            "the minimum configuration collapses (records timed out)",
            1.0,
            table.mean("minimum", "whole", "timed_out"),
        ),
        Claim(
            claim="preventive_as_published: copes with sudden steps (records timed out)",
            paper=0,
            ours=published,
            holds=published == 0,
        ),
        _in_time(table),
        at_most(
            "preventive: p99 of latency in seconds (our goal)",
            18.0,
            table.mean(OURS, "whole", "p99_latency_s"),
        ),
        at_most(
            "preventive: instances relative to the expert's (our goal)",
            0.68,
            table.mean(OURS, "whole", "instances_ratio"),
        ),
        _none_better(table),
    ]


def advertising(table: Table) -> list[Claim]:
    """Figure 12."""
    latency = table.mean(OURS, "whole", "mean_latency_s") / table.mean(
        EXPERT, "whole", "mean_latency_s"
    )
    return [
        at_most(
            "preventive: instances relative to the expert's (goal: 40% less)",
            0.60,
            table.mean(OURS, "whole", "instances_ratio"),
        ),
        at_most("preventive: mean latency relative to the expert's (equal)", 1.02, latency),
        _in_time(table),
        _none_better(table),
    ]


def traces(table: Table) -> list[Claim]:
    """Generated traces."""
    found = []
    for x in table.means(OURS, "mean_latency_s"):
        found += [_in_time(table, x), _none_better(table, x)]
        if str(x).startswith("constant"):
            late = _worst(table, OURS, "late_reconfigurations", x=x)
            found.append(
                Claim(
                    claim=f"{x}: no reconfiguration after ten periods",
                    paper=0,
                    ours=late,
                    holds=late == 0,
                )
            )
    return found
