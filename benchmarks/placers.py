"""How good and how fast are plans? The set-ups of the ALBIC paper, and larger ones.

Distances are in points of a worker's load, and stand beside those of the baselines in the same
run. Times are the best of several runs, after kernels have been compiled. The goals are those of
the project.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from penstock.policies.placement import (
    Albic,
    Cluster,
    Cola,
    Flux,
    LocalSearch,
    PlacementPlan,
    Placer,
)
from penstock.sim import applied, chain_traffic, even_cluster, fluctuated, uneven_cluster

RUNS = 3


@dataclass(frozen=True)
class Measured:
    """One number beside its goal: "at most" or "at least" so much."""

    what: str
    number: float
    unit: str
    goal: str = ""
    limit: float | None = None

    @property
    def reached(self) -> str:
        if self.limit is None:
            return ""
        good = self.number <= self.limit if self.goal == "at most" else self.number >= self.limit
        return "yes" if good else "no"


def timed(run: Callable[[], PlacementPlan]) -> tuple[PlacementPlan, float]:
    plan = run()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return plan, min(times)


def plans(placer: Placer, clusters: list[Cluster]) -> list[PlacementPlan]:
    return [placer.plan(cluster) for cluster in clusters]


def sixty(seeds: int) -> list[Measured]:
    """60 workers, 1,200 key groups."""
    clusters = [uneven_cluster(60, 1_200, 0.3, seed=seed) for seed in range(seeds)]
    binding = [uneven_cluster(60, 1_200, 0.6, seed=seed) for seed in range(seeds)]
    ours, flux = plans(LocalSearch(20), clusters), plans(Flux(20), clusters)
    free, bound = plans(LocalSearch(), clusters), plans(LocalSearch(10), binding)
    _, seconds = timed(lambda: LocalSearch(20).plan(clusters[0]))
    _, free_s = timed(lambda: LocalSearch().plan(clusters[0]))
    ratio = max(plan.distance_after / plan.lower_bound for plan in bound)
    name = "60 x 1,200, 30%, budget 20"
    return [
        Measured(f"{name}: distance, mean", _mean(ours), "points", "at most", 0.8),
        Measured(f"{name}: distance, worst", _worst(ours), "points", "at most", 0.8),
        Measured(f"{name}: distance of flux, mean", _mean(flux), "points", "at least", 1.2),
        Measured(f"{name}: most migrations", max(len(p.moves) for p in ours), "", "at most", 20),
        Measured(f"{name}: time", 1_000 * seconds, "ms", "at most", 100),
        Measured("60 x 1,200, 30%, no budget: worst", _worst(free), "points", "at most", 0.01),
        Measured("60 x 1,200, 30%, no budget: time", 1_000 * free_s, "ms", "at most", 100),
        Measured("60 x 1,200, 60%, budget 10: to the bound", ratio, "times", "at most", 1.05),
    ]


def thousand() -> list[Measured]:
    """1,000 workers, 20,000 key groups."""
    cluster = uneven_cluster(1_000, 20_000, 0.3, seed=0)
    plan, seconds = timed(lambda: LocalSearch(333).plan(cluster))
    ratio = plan.distance_after / plan.lower_bound
    name = "1,000 x 20,000, 30%, budget 333"
    return [
        Measured(f"{name}: distance", plan.distance_after, "points"),
        Measured(f"{name}: to the bound", ratio, "times", "at most", 1.3),
        Measured(f"{name}: time", seconds, "s", "at most", 2.0),
    ]


def scale_in() -> list[Measured]:
    """10 of 60 workers are to be removed, one is overloaded, 20 migrations a round."""
    even = even_cluster(60, 1_200, 0)
    load = even.load[:, 0].copy()
    load[even.placement == 59] *= 2
    cluster = replace(even, load=load, removed=np.arange(60) < 10)
    drained, below = 0, 0
    for turn in range(1, 30):
        plan = LocalSearch(20).plan(cluster)
        cluster = applied(cluster, plan)
        if not below and plan.distance_after < 5:
            below = turn
        if not cluster.undrained(cluster.placement):
            drained = turn
            break
    return [
        Measured("scale-in of 10 of 60: rounds until drained", drained, "", "at most", 12),
        Measured("scale-in of 10 of 60: rounds until below 5 points", below, "", "at most", 8),
    ]


def chain(rounds: int, seeds: int) -> list[Measured]:
    """40 workers, 800 key groups of 20 operators, half of them one to one."""
    makes = {
        "albic": lambda: Albic(20),
        "albic as published": lambda: Albic.as_published(max_migrations=20),
        "cola": Cola,
    }
    results = []
    for name, make in makes.items():
        shares, distances, moves = [], [], []
        for seed in range(seeds):
            cluster = even_cluster(40, 800, seed, operators=20)
            rng = np.random.default_rng((seed, 2))
            cluster = replace(cluster, traffic=chain_traffic(cluster, 0.5, rng))
            for _ in range(rounds):
                cluster = fluctuated(cluster, rng)
                plan = make().plan(cluster)
                cluster = applied(cluster, plan)
                distances.append(plan.distance_after)
                moves.append(len(plan.moves))
            shares.append(plan.collocation_after)
        what = f"40 x 800, half 1-1, {rounds} rounds, {name}"
        ours = name == "albic"
        goal = ("at least", 50.0) if ours else ("", None)
        results.append(Measured(f"{what}: collocation", 100 * min(shares), "%", *goal))
        goal = ("at most", 0.6) if ours else ("", None)
        results.append(
            Measured(f"{what}: distance, mean", float(np.mean(distances)), "points", *goal)
        )
        goal = ("at most", 20.0) if ours else ("", None)
        results.append(Measured(f"{what}: most migrations", max(moves), "", *goal))
    return results


def _mean(found: list[PlacementPlan]) -> float:
    return float(np.mean([plan.distance_after for plan in found]))


def _worst(found: list[PlacementPlan]) -> float:
    return max(plan.distance_after for plan in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--json", type=Path, default=Path("penstock-out/placers.json"))
    args = parser.parse_args()
    results = sixty(args.seeds) + thousand() + scale_in() + chain(args.rounds, min(3, args.seeds))
    table = Table(title=f"{args.seeds} seeds; distances in points of a worker's load")
    table.add_column("what")
    table.add_column("number", justify="right")
    table.add_column("goal", justify="right")
    table.add_column("reached")
    for row in results:
        goal = "" if row.limit is None else f"{row.goal} {row.limit:g}"
        table.add_row(row.what, f"{row.number:.4g} {row.unit}", goal, row.reached)
    Console().print(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps([asdict(row) for row in results], indent=1) + "\n")


if __name__ == "__main__":
    main()
