"""What the AUTOSCALE paper says of its figures, held against what we measure."""

from collections.abc import Callable

from penstock.experiments.results import Claim, Table, at_least, at_most

Check = Callable[[Table], list[Claim]]

OURS, PUBLISHED, EXPERT = "preventive", "preventive_as_published", "expert"
OTHERS = "threshold", "rate_based", PUBLISHED


def _worst(table: Table, series: str, metric: str, x: float | str = "whole") -> float:
    return table.row(series, x, metric).max


def _nobody_better(table: Table, x: float | str = "whole") -> Claim:
    """Ours: no other scaler is better by more than 5% in both latency and instances."""
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
        f"{where}no other scaler is better by 5% in both latency and instances",
        "none",
        ", ".join(better) or "none",
        not better,
    )


def _in_time(table: Table, x: float | str = "whole") -> Claim:
    where = "" if x == "whole" else f"{x}: "
    worst = _worst(table, OURS, "timed_out", x)
    return Claim(f"{where}preventive: no record timed out, in any seed", 0, worst, worst == 0)


def survives(table: Table) -> list[Claim]:
    """Topologies without numbers in the paper."""
    instances = table.mean(OURS, "whole", "instances_ratio")
    return [
        _in_time(table),
        at_most("preventive: instances relative to the expert's", 1.0, instances),
        _nobody_better(table),
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
        at_most("preventive: the same (our goal)", 0.60, instances[OURS]),
        at_most(
            "preventive: mean latency in seconds (our goal)",
            0.10,
            table.mean(OURS, "whole", "mean_latency_s"),
        ),
        _in_time(table),
        _nobody_better(table),
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
            "preventive_as_published: copes with sudden steps (no record timed out)",
            0,
            published,
            published == 0,
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
        _nobody_better(table),
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
        at_most("preventive: mean latency over the expert's (equal)", 1.02, latency),
        _in_time(table),
        _nobody_better(table),
    ]


def traces(table: Table) -> list[Claim]:
    """Generated traces."""
    found = []
    for x in table.means(OURS, "mean_latency_s"):
        found += [_in_time(table, x), _nobody_better(table, x)]
        if str(x).startswith("constant"):
            late = _worst(table, OURS, "late_reconfigurations", x)
            found.append(Claim(f"{x}: no reconfiguration after ten periods", 0, late, late == 0))
    return found
