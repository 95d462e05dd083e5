"""Claims of the paper on Consistent Grouping, and our goals, compared with our measurements."""

from itertools import pairwise

from penstock.experiments.results import Claim, Table, at_least, at_most

RECORDS, PER_WORKER, VIRTUAL = 1_000_000, 10, 20
EPSILON = 0.01
PUBLISHED = "cg_as_published"


def _worst(table: Table, series: str, metric: str) -> float:
    return max(table.means(series, metric).values())


def _below(table: Table, metric: str, *, low: str, high: str) -> Claim:
    """Claim that one series is below another at every x."""
    lower, upper = table.means(low, metric), table.means(high, metric)
    holds = all(lower[x] <= upper[x] for x in lower)
    ratio = max(lower[x] / upper[x] for x in lower)
    return Claim(
        claim=f"{low} is never above {high}: {metric}", paper=1.0, ours=round(ratio, 4), holds=holds
    )


def choices(table: Table) -> list[Claim]:
    """Figure 4."""
    bounds = [
        at_most(
            f"{series}: imbalance with {bins} bins at most epsilon + bins / records, at any skew",
            EPSILON + bins / RECORDS,
            _worst(table, series, f"imbalance_{bins}"),
        )
        for series in ("porc", "bounded_hash")
        for bins in (10, 100, 1_000)
    ]
    fair = [
        at_most(
            f"round_robin: imbalance with {bins} bins at most bins / records",
            bins / RECORDS,
            _worst(table, "round_robin", f"imbalance_{bins}"),
        )
        for bins in (10, 100, 1_000)
    ]
    skewed = [
        at_least(
            f"{series}: imbalance with 100 bins grows with the skew (at 2.0 over at 0.1)",
            2.0,
            table.mean(series, 2.0, "imbalance_100")
            / max(table.mean(series, 0.1, "imbalance_100"), 1e-6),
        )
        for series in ("key_hash", "pkg")
    ]
    order = [
        _below(table, f"memory_{bins}", low=low, high=high)
        for bins in (10, 100, 1_000)
        for low, high in (("porc", "bounded_hash"), ("bounded_hash", "round_robin"))
    ]
    workers = [
        at_most(
            "cg: imbalance of 10 workers at most epsilon + virtual workers / records",
            EPSILON + 10 * VIRTUAL / RECORDS,
            _worst(table, "cg", "imbalance_10"),
        ),
    ]
    memory = table.means("cg", "memory_10")
    if 1.4 in memory:
        workers.append(at_most("cg: memory of 10 workers at Zipf-1.4", 1.6, memory[1.4]))
    return [*bounds, *fair, *workers, *skewed, *order]


def epsilon(table: Table) -> list[Claim]:
    """Figure 6."""
    imbalance, memory = table.means("cg", "imbalance"), table.means("cg", "memory")
    xs = list(imbalance)
    return [
        *(
            at_most(
                f"cg: imbalance at epsilon {x:g} at most epsilon + virtual workers / records",
                float(x) + 10 * PER_WORKER / RECORDS,
                imbalance[x],
            )
            for x in xs
        ),
        Claim(
            claim="cg: memory falls as epsilon grows",
            paper="falls",
            ours=", ".join(f"{memory[x]:.2f}" for x in xs),
            holds=all(memory[a] >= memory[b] for a, b in pairwise(xs)),
        ),
        Claim(
            claim="cg: memory between key_hash and round_robin, at any epsilon",
            paper="between",
            ours=f"{min(memory.values()):.2f} to {max(memory.values()):.2f}",
            holds=min(memory.values()) >= 1
            and max(memory.values()) <= min(table.means("round_robin", "memory").values()),
        ),
    ]


def workers(table: Table) -> list[Claim]:
    """Figures 7 and 8."""
    return [
        *(
            at_least(
                f"{series}: imbalance of bins grows with the workers (100 over 5)",
                10.0,
                table.mean(series, 100, "imbalance_of_bins")
                / max(table.mean(series, 5, "imbalance_of_bins"), 1e-6),
            )
            for series in ("key_hash", "pkg")
        ),
        at_most(
            "porc: imbalance of bins at most epsilon + bins / records",
            EPSILON + 1_000 / RECORDS,
            _worst(table, "porc", "imbalance_of_bins"),
        ),
        at_most(
            "cg: imbalance at most epsilon + virtual workers / records",
            EPSILON + 1_000 / RECORDS,
            _worst(table, "cg", "imbalance"),
        ),
        at_most(
            "pkg: imbalance nearly zero with 5 and 10 workers",
            0.01,
            max(table.mean("pkg", n, "imbalance") for n in (5, 10)),
        ),
        _below(table, "memory_of_bins", low="porc", high="bounded_hash"),
        _below(table, "memory", low="cg", high="bounded_hash"),
        _below(table, "memory", low="cg", high="round_robin"),
        at_most(
            "porc: memory of bins as low as that of pkg (largest ratio)",
            1.0,
            max(
                table.mean("porc", n, "memory_of_bins") / table.mean("pkg", n, "memory_of_bins")
                for n in table.means("porc", "memory_of_bins")
            ),
        ),
    ]


def homogeneous(table: Table) -> list[Claim]:
    """Figure 9."""
    return [
        at_most("cg: imbalance in the second half", 0.06, _whole(table, "cg", "late_imbalance")),
        at_most("cg: longest queue at the end", 100, _whole(table, "cg", "queue_at_end")),
        _diverges(table, "key_hash"),
    ]


def heterogeneous(table: Table) -> list[Claim]:
    """Figure 10, and our goals."""
    return [
        at_most("cg: imbalance in the second half", 0.06, _whole(table, "cg", "late_imbalance")),
        at_most("cg: longest queue at the end", 100, _whole(table, "cg", "queue_at_end")),
        at_most("cg: moves", 150, _whole(table, "cg", "moves")),
        at_most(
            f"{PUBLISHED}: imbalance in the second half",
            0.06,
            _whole(table, PUBLISHED, "late_imbalance"),
        ),
        at_most(f"{PUBLISHED}: moves", 150, _whole(table, PUBLISHED, "moves")),
        _diverges(table, "key_hash"),
        _diverges(table, "round_robin"),
    ]


def grid(table: Table) -> list[Claim]:
    """Section VII, Q2: the same behaviour in all configurations."""
    return [
        at_most(
            "cg: imbalance in the second half, the worst configuration",
            0.06,
            _worst(table, "cg", "late_imbalance"),
        ),
        at_most(
            "cg: longest queue at the end, the worst configuration",
            1_000,
            _worst(table, "cg", "queue_at_end"),
        ),
    ]


def sources(table: Table) -> list[Claim]:
    """Figure 11."""
    return [
        at_most(
            f"cg: {what} with {n} workers, 100 sources over 1 source",
            10.0,
            table.mean("cg", 100, f"{what}_{n}") / table.mean("cg", 1, f"{what}_{n}"),
        )
        for what in ("imbalance", "memory")
        for n in (5, 10, 50, 100)
    ]


def virtual_workers(table: Table) -> list[Claim]:
    """Figure 12."""
    late = table.means(PUBLISHED, "late_completion_ms")
    best = min(late, key=lambda x: late[x])
    return [
        at_least(
            f"{PUBLISHED}: 5 virtual workers are too few: imbalance",
            0.06,
            table.mean(PUBLISHED, 5, "late_imbalance"),
        ),
        at_least(
            f"{PUBLISHED}: 1,000 virtual workers converge slowly: completion time over that of 100",
            1.5,
            late[1_000] / late[100],
        ),
        Claim(
            claim=f"{PUBLISHED}: 100 virtual workers give the best completion time",
            paper=100,
            ours=float(best),
            holds=best == 100,
        ),
        *(
            at_most(
                f"cg: {n} virtual workers: imbalance in the second half",
                0.06,
                table.mean("cg", n, "late_imbalance"),
            )
            for n in (20, 50, 100)
        ),
    ]


def changing_capacity(table: Table) -> list[Claim]:
    """Figure 13: it adapts very efficiently."""
    claims = []
    for series in (PUBLISHED, "cg"):
        slots = {x: v for x, v in table.means(series, "imbalance").items() if x != "whole"}
        late = [v for x, v in slots.items() if float(x) > 0.9 * len(slots)]
        claims += [
            at_most(f"{series}: imbalance in the last tenth", 0.1, sum(late) / len(late)),
            at_most(
                f"{series}: longest queue at the end", 100, _whole(table, series, "queue_at_end")
            ),
        ]
    return claims


def _whole(table: Table, series: str, metric: str) -> float:
    return table.mean(series, "whole", metric)


def _diverges(table: Table, series: str) -> Claim:
    queues = [v for x, v in table.means(series, "queue_spread").items() if x != "whole"]
    growth = queues[-1] / max(1.0, queues[len(queues) // 2])
    return at_least(f"{series}: its queue keeps growing (end over middle)", 1.5, growth)
