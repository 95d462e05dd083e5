"""How fast do groupings route and shedders decide, and how fast is the simulator? On one core.

Every number is the best of several runs, and stands beside the others of the same run: the ratios
are what to look at. The goals are those of the project, for a current core.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from penstock.policies.grouping import (
    BoundedHash,
    Consistent,
    FullKnowledge,
    Grouping,
    KeyHash,
    PartialKey,
    Proactive,
    ProactiveAsPublished,
    RandomChoices,
    RoundRobin,
    TwoChoices,
)
from penstock.policies.shedding import (
    LoadAware,
    LoadAwareAsPublished,
    MeanCost,
    RandomDrop,
    Shedder,
    average,
)
from penstock.sim import Stream, Synthetic, simulate, zipf_keys

RUNS = 7
INSTANCES = 8


@dataclass(frozen=True)
class Measured:
    """Millions of records per second."""

    what: str
    grouping: str
    million_per_s: float
    ratio_to_round_robin: float
    goal: float | None


def best_s(run: Callable[[], object]) -> float:
    run()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def groupings(stream: Stream) -> dict[str, Callable[[], Grouping]]:
    costs = stream.exact_costs()
    return {
        "round_robin": lambda: RoundRobin(INSTANCES),
        "key_hash": lambda: KeyHash(INSTANCES),
        "posg": lambda: Proactive(INSTANCES),
        "posg_frugal": lambda: Proactive.frugal(INSTANCES),
        "posg_as_published": lambda: ProactiveAsPublished(INSTANCES),
        "full_knowledge": lambda: FullKnowledge(INSTANCES, costs),
    }


def measure(stream: Stream) -> list[Measured]:
    goals = {("route", "posg"): 15.0, ("route", "key_hash"): 100.0}
    goals |= {("simulate", "posg"): 2.0, ("simulate", "round_robin"): 10.0}
    results = []
    for what in ("route", "simulate"):
        speeds = {}
        for name, make in groupings(stream).items():
            if what == "route":
                learnt = make()
                simulate(learnt, stream)
                seconds = best_s(lambda g=learnt: g.route(stream.keys, stream.arrivals_ms))
            else:
                seconds = best_s(lambda m=make: simulate(m(), stream))
            speeds[name] = len(stream) / seconds / 1e6
        for name, speed in speeds.items():
            ratio = speed / speeds["round_robin"]
            results.append(Measured(what, name, speed, ratio, goals.get((what, name))))
    return results


def by_choices(records: int) -> list[Measured]:
    """Groupings for skewed keys: 100,000 keys, lifetime loads."""
    cases: list[tuple[str, Callable[[], Grouping], float, float | None]] = [
        ("pkg, 10 bins, Zipf-0.8", lambda: PartialKey(10, half_life=None), 0.8, 100.0),
        ("potc, 10 bins, Zipf-0.8", lambda: TwoChoices(10, half_life=None), 0.8, None),
        ("porc, 10 bins, Zipf-0.8", lambda: RandomChoices(10, half_life=None), 0.8, None),
        ("porc, 1,000 bins, Zipf-0.8", lambda: RandomChoices(1_000, half_life=None), 0.8, 40.0),
        ("porc, 1,000 bins, Zipf-1.4", lambda: RandomChoices(1_000, half_life=None), 1.4, 4.0),
        (
            "bounded_hash, 1,000 bins, Zipf-1.4",
            lambda: BoundedHash(1_000, half_life=None),
            1.4,
            None,
        ),
        ("cg, 10 x 20, Zipf-1.4", lambda: Consistent(10, half_life=None), 1.4, None),
    ]
    results = []
    for name, make, exponent, goal in cases:
        keys = zipf_keys(np.random.default_rng(0), records, 100_000, exponent=exponent)
        base = best_s(lambda k=keys: RoundRobin(10).route(k))
        seconds = best_s(lambda m=make, k=keys: m().route(k))
        results.append(Measured("route", name, records / seconds / 1e6, base / seconds, goal))
    return results


def shedders(records: int) -> list[Measured]:
    """Shedders that have learnt, at 25% under-provisioning."""
    drawn = Synthetic(records=records, min_cost_ms=0.1, max_cost_ms=6.4).stream(0)
    stream = drawn.provisioned(1, 0.75)
    target = average("6.4 ms")
    base = best_s(lambda: RoundRobin(1).route(stream.keys))
    makes: dict[str, tuple[Shedder, float | None]] = {
        "random_drop": (RandomDrop(0.25), None),
        "mean_cost": (MeanCost(target, 3.25), None),
        "las": (LoadAware(target), 12.0),
        "las_cheap_first": (LoadAware(target, "cheap"), 12.0),
        "las_as_published": (LoadAwareAsPublished(target), None),
    }
    results = []
    for name, (shedder, goal) in makes.items():
        simulate(RoundRobin(1), stream.part(0, 50_000), shedder=shedder)
        seconds = best_s(lambda s=shedder: s.admit(stream.keys, stream.arrivals_ms))
        results.append(Measured("admit", name, records / seconds / 1e6, base / seconds, goal))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, default=Path("penstock-out/policies.json"))
    args = parser.parse_args()
    stream = Synthetic(records=args.records).stream(0).provisioned(INSTANCES, 1.02)
    results = measure(stream) + by_choices(args.records) + shedders(args.records)
    table = Table(
        title=f"{args.records:,} records, one core; Zipf-1 and {INSTANCES} instances unless told"
    )
    table.add_column("what")
    table.add_column("policy")
    for column in ("M records/s", "to round robin", "goal"):
        table.add_column(column, justify="right")
    table.add_column("reached")
    for row in results:
        reached = "" if row.goal is None else "yes" if row.million_per_s >= row.goal else "no"
        goal = "" if row.goal is None else f"{row.goal:g}"
        numbers = f"{row.million_per_s:.1f}", f"{row.ratio_to_round_robin:.4f}", goal
        table.add_row(row.what, row.grouping, *numbers, reached)
    Console().print(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps([asdict(row) for row in results], indent=1) + "\n")


if __name__ == "__main__":
    main()
