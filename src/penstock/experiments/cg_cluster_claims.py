"""Claims of the CG paper on workers with queues (Figures 9, 10, 12, 13), and our measurements."""

from penstock.experiments.cg_claims import BOTH, OURS, PUBLISHED, VIRTUAL, worst
from penstock.experiments.claims import Claim, at_least, at_most, near
from penstock.experiments.results import Table

# The paper's ten virtual workers are too few for unequal workers; these are beside them.
MORE = f"{PUBLISHED}_of_{VIRTUAL}", f"{OURS}_of_{VIRTUAL}"
# Our limits for "close to zero" and "very low".
CALM, SHORT = 0.06, 100


def _in_balance(table: Table, source: str, *, queue: str) -> list[Claim]:
    """Return the paper's claims for its ten virtual workers, and our goals for twenty."""
    claims = []
    for series in BOTH:
        claims += [
            at_most(
                f"{series}: imbalance in the second half, 10 virtual workers",
                _whole(table, series, "late_imbalance"),
                paper="close to zero",
                source=source,
                goal=CALM,
            ),
            at_most(
                f"{series}: longest queue at the end, 10 virtual workers",
                _whole(table, series, "queue_at_end"),
                paper=queue,
                source=source,
                goal=SHORT,
            ),
        ]
    for series in MORE:
        claims += [
            at_most(
                f"{series}: imbalance in the second half",
                _whole(table, series, "late_imbalance"),
                goal=CALM,
            ),
            at_most(
                f"{series}: longest queue at the end",
                _whole(table, series, "queue_at_end"),
                goal=SHORT,
            ),
            at_most(f"{series}: moves", _whole(table, series, "moves"), goal=150),
        ]
    return claims


def homogeneous(table: Table) -> list[Claim]:
    """Figure 9."""
    source = "Figure 9"
    alone = _diverges(table, "key_hash", source, paper="increases over time")
    return [*_in_balance(table, source, queue="very low"), alone]


def heterogeneous(table: Table) -> list[Claim]:
    """Figure 10."""
    source = "Figure 10"
    others = [
        _diverges(table, series, source, paper="grows") for series in ("key_hash", "round_robin")
    ]
    return [*_in_balance(table, source, queue="lower"), *others]


def grid(table: Table) -> list[Claim]:
    """Section VII, Q2: the same behaviour in all configurations."""
    claims = []
    for series in BOTH:
        claims += [
            at_most(
                f"{series}: imbalance in the second half, worst configuration",
                worst(table, series, "late_imbalance"),
                paper="similar in all the configurations",
                source="section VII, Q2",
                goal=CALM,
            ),
            at_most(
                f"{series}: longest queue at the end, worst configuration",
                worst(table, series, "queue_at_end"),
                paper="similar in all the configurations",
                source="section VII, Q2",
                goal=1_000,
            ),
        ]
    return [
        *claims,
        at_most(
            "cg_of_100: imbalance in the second half, worst configuration",
            worst(table, "cg_of_100", "late_imbalance"),
            goal=CALM,
        ),
        at_most(
            "cg_of_100: longest queue at the end, worst configuration",
            worst(table, "cg_of_100", "queue_at_end"),
            goal=1_000,
        ),
    ]


def virtual_workers(table: Table) -> list[Claim]:
    """Figure 12."""
    source = "Figure 12"
    claims = []
    for series in BOTH:
        late = table.means(series, "late_completion_ms")
        claims += [
            at_least(
                f"{series}: imbalance with 5 virtual workers",
                table.mean(series, 5, "late_imbalance"),
                paper="not the desired results",
                source=source,
                goal=CALM,
            ),
            at_least(
                f"{series}: completion time with 1,000 virtual workers over that with 100",
                late[1_000] / late[100],
                paper="takes longer to converge",
                source=source,
                goal=1.5,
            ),
            near(
                f"{series}: completion time with 10 virtual workers over that with 20",
                late[10] / late[20],
                paper="similar",
                source=source,
                goal=1.0,
                tolerance=0.25,
            ),
            near(
                f"{series}: number of virtual workers with the best completion time",
                float(min(late, key=lambda x: late[x])),
                paper=100,
                source=source,
                tolerance=0,
            ),
        ]
    return claims + [
        at_most(
            f"cg: imbalance in the second half with {n} virtual workers",
            table.mean(OURS, n, "late_imbalance"),
            goal=CALM,
        )
        for n in (20, 50, 100)
    ]


def changing_capacity(table: Table) -> list[Claim]:
    """Figure 13."""
    claims = []
    for series in BOTH:
        slots = {x: v for x, v in table.means(series, "imbalance").items() if x != "whole"}
        late = [v for x, v in slots.items() if float(x) > 0.9 * len(slots)]
        claims += [
            at_most(
                f"{series}: imbalance in the last tenth",
                sum(late) / len(late),
                paper="adapts very efficiently",
                source="Figure 13",
                goal=0.1,
            ),
            at_most(
                f"{series}: longest queue at the end",
                _whole(table, series, "queue_at_end"),
                paper="adapts very efficiently",
                source="Figure 13",
                goal=SHORT,
            ),
        ]
    return claims


def _whole(table: Table, series: str, metric: str) -> float:
    return table.mean(series, "whole", metric)


def _diverges(table: Table, series: str, source: str, *, paper: str) -> Claim:
    queues = [v for x, v in table.means(series, "queue_spread").items() if x != "whole"]
    growth = queues[-1] / max(1.0, queues[len(queues) // 2])
    return at_least(
        f"{series}: queue at the end over that in the middle",
        growth,
        paper=paper,
        source=source,
        goal=1.5,
    )
