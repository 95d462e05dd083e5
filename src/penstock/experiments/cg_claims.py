"""Claims of the CG paper on keys and bins (Figures 4, 6 to 8 and 11), and our measurements."""

from itertools import pairwise

from penstock.experiments.claims import Claim, at_least, at_most
from penstock.experiments.results import Table

RECORDS, PER_WORKER, VIRTUAL = 1_000_000, 10, 20
EPSILON = 0.01
PUBLISHED, OURS = "cg_as_published", "cg"
BOTH = PUBLISHED, OURS
PORC = "porc_as_published", "porc"


def worst(table: Table, series: str, metric: str) -> float:
    """Return the largest mean of a series."""
    return max(table.means(series, metric).values())


def _below(
    table: Table,
    metric: str,
    *,
    low: str,
    high: str,
    paper: str | None = None,
    source: str | None = None,
) -> Claim:
    """Claim that one series is not above another at any x."""
    lower, upper = table.means(low, metric), table.means(high, metric)
    return at_most(
        f"{low}: largest {metric} over that of {high}",
        max(lower[x] / upper[x] for x in lower),
        paper=paper,
        source=source,
        goal=1.0,
    )


def choices(table: Table) -> list[Claim]:
    """Figure 4. One record a bin is the tolerance of the bound, as loads are whole numbers."""
    bounds = [
        at_most(
            f"{series}: largest imbalance with {bins} bins, at any skew",
            worst(table, series, f"imbalance_{bins}"),
            paper="bounded by epsilon",
            source="section V-A",
            goal=EPSILON,
            tolerance=bins / RECORDS,
        )
        for series in (*PORC, "bounded_hash")
        for bins in (10, 100, 1_000)
    ]
    fair = [
        at_most(
            f"round_robin: largest imbalance with {bins} bins",
            worst(table, "round_robin", f"imbalance_{bins}"),
            paper="fairly well",
            source="Figure 4",
            goal=bins / RECORDS,
        )
        for bins in (10, 100, 1_000)
    ]
    skewed = [
        at_least(
            f"{series}: imbalance with 100 bins at Zipf-2.0 over that at Zipf-0.1",
            table.mean(series, 2.0, "imbalance_100")
            / max(table.mean(series, 0.1, "imbalance_100"), 1e-6),
            paper="high as the skew increases",
            source="Figure 4",
            goal=2.0,
        )
        for series in ("key_hash", "pkg")
    ]
    order = [
        _below(table, f"memory_{bins}", low=low, high=high)
        for bins in (10, 100, 1_000)
        for low, high in (
            *((series, "bounded_hash") for series in PORC),
            ("bounded_hash", "round_robin"),
        )
    ]
    workers = [
        at_most(
            "cg: largest imbalance of 10 workers",
            worst(table, OURS, "imbalance_10"),
            goal=EPSILON,
            tolerance=10 * VIRTUAL / RECORDS,
        ),
    ]
    memory = table.means(OURS, "memory_10")
    if 1.4 in memory:
        workers.append(at_most("cg: memory of 10 workers at Zipf-1.4", memory[1.4], goal=1.6))
    return [*bounds, *fair, *workers, *skewed, *order]


def epsilon(table: Table) -> list[Claim]:
    """Figure 6."""
    highest = min(table.means("round_robin", "memory").values())
    claims = []
    for series in BOTH:
        imbalance, memory = table.means(series, "imbalance"), table.means(series, "memory")
        xs = list(imbalance)
        claims += [
            *(
                at_most(
                    f"{series}: imbalance with epsilon {x:g}",
                    imbalance[x],
                    goal=float(x),
                    tolerance=10 * PER_WORKER / RECORDS,
                )
                for x in xs
            ),
            Claim(
                claim=f"{series}: memory as epsilon grows",
                paper="low for higher values of epsilon",
                source="Figure 6",
                ours=", ".join(f"{memory[x]:.2f}" for x in xs),
                holds=all(memory[a] >= memory[b] for a, b in pairwise(xs)),
            ),
            Claim(
                claim=f"{series}: memory between that of key_hash and that of round_robin",
                paper="interpolates",
                source="Figure 6",
                ours=f"{min(memory.values()):.2f} to {max(memory.values()):.2f}",
                holds=min(memory.values()) >= 1 and max(memory.values()) <= highest,
            ),
        ]
    return claims


def workers(table: Table) -> list[Claim]:
    """Figures 7 and 8."""
    seven, eight = "Figure 7", "Figure 8"
    return [
        *(
            at_least(
                f"{series}: imbalance of bins, 100 workers over 5",
                table.mean(series, 100, "imbalance_of_bins")
                / max(table.mean(series, 5, "imbalance_of_bins"), 1e-6),
                paper="grows linearly",
                source=seven,
                goal=10.0,
            )
            for series in ("key_hash", "pkg")
        ),
        *(
            at_most(
                f"{series}: largest imbalance of bins",
                worst(table, series, "imbalance_of_bins"),
                paper="close to a constant factor of epsilon",
                source=seven,
                goal=EPSILON,
                tolerance=1_000 / RECORDS,
            )
            for series in PORC
        ),
        *(
            _below(
                table,
                "memory_of_bins",
                low=series,
                high="pkg",
                paper="as low as PKG",
                source=seven,
            )
            for series in PORC
        ),
        *(_below(table, "memory_of_bins", low=series, high="bounded_hash") for series in PORC),
        *(
            at_most(
                f"{series}: largest imbalance",
                worst(table, series, "imbalance"),
                paper="bounded",
                source=eight,
                goal=EPSILON,
                tolerance=1_000 / RECORDS,
            )
            for series in BOTH
        ),
        at_most(
            "pkg: largest imbalance with 5 and 10 workers",
            max(table.mean("pkg", n, "imbalance") for n in (5, 10)),
            paper="nearly perfect",
            source=eight,
            goal=0.01,
        ),
        *(
            _below(table, "memory", low=series, high=high, paper=said, source=eight)
            for series in BOTH
            for high, said in (("bounded_hash", "improved"), ("round_robin", "higher for SG"))
        ),
    ]


def sources(table: Table) -> list[Claim]:
    """Figure 11."""
    return [
        at_most(
            f"{series}: {what} with {n} workers, 100 sources over 1 source",
            table.mean(series, 100, f"{what}_{n}") / table.mean(series, 1, f"{what}_{n}"),
            paper="almost the same on a log scale",
            source="Figure 11",
            goal=3.0,
        )
        for series in BOTH
        for what in ("imbalance", "memory")
        for n in (5, 10, 50, 100)
    ]
