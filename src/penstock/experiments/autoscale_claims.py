"""Claims of the AUTOSCALE paper on its figures, compared with our measurements."""

from collections.abc import Callable

from penstock.experiments.claims import Claim, at_least, at_most
from penstock.experiments.results import Table

Check = Callable[[Table], list[Claim]]

OURS, PUBLISHED, EXPERT, MINIMUM = "preventive", "preventive_as_published", "expert", "minimum"
BOTH = PUBLISHED, OURS
OTHERS = "threshold", "rate_based", PUBLISHED
# Difference by which a scaler is better than another one, and up to which they are equal.
MARGIN = 0.05


def _worst(table: Table, series: str, metric: str, *, x: float | str = "whole") -> float:
    return table.row(series, x, metric).max


def _ratio(table: Table, series: str, x: float | str = "whole") -> float:
    return table.mean(series, x, "instances_ratio")


def _latency(table: Table, series: str, x: float | str = "whole") -> float:
    return table.mean(series, x, "mean_latency_s")


def _none_better(table: Table, x: float | str = "whole") -> Claim:
    """Return a goal of ours: no other scaler is better, even if the latencies are equal."""
    better = [series for series in OTHERS if _better(table, series, x)]
    where = "" if x == "whole" else f"{x}: "
    return Claim(
        claim=f"{where}scalers better in latency or instances, and not worse in the other",
        goal="none",
        ours=", ".join(better) or "none",
        tolerance=f"{MARGIN:.0%}",
        holds=not better,
    )


def _better(table: Table, series: str, x: float | str) -> bool:
    """Return whether a scaler is better than ours by the margin, and elsewhere equal within it."""
    latency = _latency(table, series, x) / _latency(table, OURS, x)
    instances = _ratio(table, series, x) / _ratio(table, OURS, x)
    least, most = min(latency, instances), max(latency, instances)
    return least < 1 - MARGIN and most <= 1 + MARGIN


def _in_time(
    table: Table,
    series: str = OURS,
    *,
    x: float | str = "whole",
    paper: str | None = None,
    source: str | None = None,
) -> Claim:
    where = "" if x == "whole" else f"{x}: "
    return at_most(
        f"{where}{series}: records timed out, worst seed",
        _worst(table, series, "timed_out", x=x),
        paper=paper,
        source=source,
        goal=0,
    )


def survives(table: Table) -> list[Claim]:
    """Return goals for topologies without numbers in the paper."""
    claims = []
    for series in BOTH:
        claims += [
            _in_time(table, series),
            at_most(
                f"{series}: instances relative to the expert's", _ratio(table, series), goal=1.0
            ),
        ]
    return [*claims, _none_better(table)]


def _collapses(table: Table, source: str) -> Claim:
    return at_least(
        "the minimum configuration: records timed out, mean",
        table.mean(MINIMUM, "whole", "timed_out"),
        paper="complete congestion",
        source=source,
        goal=1.0,
    )


def _our_three_steps(table: Table) -> list[Claim]:
    return [
        at_most("preventive: instances relative to the expert's", _ratio(table, OURS), goal=0.60),
        at_most("preventive: mean latency in seconds", _latency(table, OURS), goal=0.10),
        _none_better(table),
    ]


def three_steps(table: Table) -> list[Claim]:
    """Figure 9a: from the minimum."""
    source = "Figure 9a"
    copes = [
        _in_time(table, series, paper="adjusts to future loads", source=source) for series in BOTH
    ]
    return [_collapses(table, source), *copes, *_our_three_steps(table)]


def _less(table: Table, series: str, *, paper: float, source: str) -> Claim:
    return at_least(
        f"{series}: instances less than the expert's, in %",
        100 * (1 - _ratio(table, series)),
        paper=paper,
        source=source,
    )


def _equivalent(table: Table, series: str, *, source: str) -> Claim:
    return at_most(
        f"{series}: mean latency relative to the expert's",
        _latency(table, series) / _latency(table, EXPERT),
        paper="equivalent",
        source=source,
        goal=1.02,
    )


def three_steps_expert(table: Table) -> list[Claim]:
    """Figure 9b: from the expert's configuration."""
    claims = []
    for series in BOTH:
        claims += [
            _less(table, series, paper=37.5, source="Figure 9b"),
            _equivalent(table, series, source="Figure 9b"),
            _in_time(table, series),
        ]
    return [*claims, *_our_three_steps(table)]


def five_steps(table: Table) -> list[Claim]:
    """Figure 10."""
    source = "Figure 10"
    return [
        _collapses(table, source),
        *(
            _in_time(table, series, paper="consumes its pending queues", source=source)
            for series in BOTH
        ),
        at_most(
            "preventive: p99 of latency in seconds",
            table.mean(OURS, "whole", "p99_latency_s"),
            goal=18.0,
        ),
        at_most("preventive: instances relative to the expert's", _ratio(table, OURS), goal=0.68),
        _none_better(table),
    ]


def advertising_minimum(table: Table) -> list[Claim]:
    """Figure 12a: from the minimum, which is enough."""
    source = "Figure 12a"
    claims = [
        at_most(
            "the minimum configuration: records timed out, worst seed",
            _worst(table, MINIMUM, "timed_out"),
            paper="not congested",
            source=source,
            goal=0,
        )
    ]
    for series in BOTH:
        claims += [
            at_least(
                f"{series}: reconfigurations, mean",
                table.mean(series, "whole", "reconfigurations"),
                paper="some scale-outs",
                source=source,
                goal=1,
            ),
            at_most(
                f"{series}: instances above those of the minimum, in %",
                100 * (_ratio(table, series) / _ratio(table, MINIMUM) - 1),
                paper=12,
                source=source,
            ),
            at_most(
                f"{series}: mean latency relative to the minimum's",
                _latency(table, series) / _latency(table, MINIMUM),
                paper="similar throughput",
                source=source,
                goal=1.02,
            ),
        ]
    return [*claims, _none_better(table)]


def advertising(table: Table) -> list[Claim]:
    """Figure 12b: from the expert's configuration."""
    claims = []
    for series in BOTH:
        claims += [
            _less(table, series, paper=50, source="Figure 12b"),
            at_most(
                f"{series}: mean latency relative to the expert's",
                _latency(table, series) / _latency(table, EXPERT),
                goal=1.02,
            ),
            _in_time(table, series),
        ]
    return [*claims, _none_better(table)]


def traces(table: Table) -> list[Claim]:
    """Other streams."""
    found = []
    for x in table.means(OURS, "mean_latency_s"):
        found += [_in_time(table, x=x), _none_better(table, x)]
        if str(x).startswith("constant"):
            late = _worst(table, OURS, "late_reconfigurations", x=x)
            found.append(
                at_most(f"{x}: reconfigurations after ten periods, worst seed", late, goal=0)
            )
    return found
