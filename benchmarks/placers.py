"""How good are the plans of placers, and how fast are they made? In memory, without Spark.

The set-ups are those of the ALBIC paper, and larger ones. Load distances are in points of a
worker's load; compare them with those of the baselines in the same run. Times are the best of
several runs, after kernels have been compiled. The goals are those of the project.
"""

from dataclasses import KW_ONLY, asdict, dataclass, replace

import numpy as np
from rich.console import Console

from common import Goal, Options, at_least, at_most, best_s, goal_columns, new_table, write_report
from penstock.policies.placement import (
    Albic,
    Cluster,
    Cola,
    Flux,
    LocalSearch,
    PlacementPlan,
    Placer,
)
from penstock.sim.clusters import applied, chain_traffic, even_cluster, fluctuated, uneven_cluster

RUNS = 3


@dataclass(frozen=True)
class Measured:
    """A measured number, its unit and its goal."""

    measure: str
    number: float
    unit: str
    _: KW_ONLY
    goal: Goal | None = None


def plan_all(placer: Placer, clusters: list[Cluster]) -> list[PlacementPlan]:
    return [placer.plan(cluster) for cluster in clusters]


def measure_sixty(seeds: int) -> list[Measured]:
    """Measure plans for 60 workers with 1,200 key groups."""
    clusters = [uneven_cluster(60, 1_200, 0.3, seed=seed) for seed in range(seeds)]
    binding = [uneven_cluster(60, 1_200, 0.6, seed=seed) for seed in range(seeds)]
    ours, flux = plan_all(LocalSearch(20), clusters), plan_all(Flux(20), clusters)
    free, bound = plan_all(LocalSearch(), clusters), plan_all(LocalSearch(10), binding)
    taken_s = best_s(lambda: LocalSearch(20).plan(clusters[0]), RUNS)
    free_s = best_s(lambda: LocalSearch().plan(clusters[0]), RUNS)
    ratio = max(plan.distance_after / plan.lower_bound for plan in bound)
    migrations = max(len(plan.moves) for plan in ours)
    name, free_name = "60 x 1,200, 30%, budget 20", "60 x 1,200, 30%, no budget"
    return [
        Measured(f"{name}: distance, mean", _mean(ours), "points", goal=at_most(0.8)),
        Measured(f"{name}: distance, worst", _worst(ours), "points", goal=at_most(0.8)),
        Measured(f"{name}: distance of flux, mean", _mean(flux), "points", goal=at_least(1.2)),
        Measured(f"{name}: most migrations", migrations, "", goal=at_most(20)),
        Measured(f"{name}: time", 1_000 * taken_s, "ms", goal=at_most(100)),
        Measured(f"{free_name}: worst", _worst(free), "points", goal=at_most(0.01)),
        Measured(f"{free_name}: time", 1_000 * free_s, "ms", goal=at_most(100)),
        Measured("60 x 1,200, 60%, budget 10: to the bound", ratio, "times", goal=at_most(1.05)),
    ]


def measure_thousand() -> list[Measured]:
    """Measure a plan for 1,000 workers with 20,000 key groups."""
    cluster = uneven_cluster(1_000, 20_000, 0.3, seed=0)
    plan = LocalSearch(333).plan(cluster)
    taken_s = best_s(lambda: LocalSearch(333).plan(cluster), RUNS)
    ratio = plan.distance_after / plan.lower_bound
    name = "1,000 x 20,000, 30%, budget 333"
    return [
        Measured(f"{name}: distance", plan.distance_after, "points"),
        Measured(f"{name}: to the bound", ratio, "times", goal=at_most(1.3)),
        Measured(f"{name}: time", taken_s, "s", goal=at_most(2.0)),
    ]


def measure_scale_in() -> list[Measured]:
    """Measure how fast 10 of 60 workers are drained while another one is overloaded.

    The budget is 20 migrations in a round.
    """
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
    name = "scale-in of 10 of 60"
    return [
        Measured(f"{name}: rounds until drained", drained, "", goal=at_most(12)),
        Measured(f"{name}: rounds until below 5 points", below, "", goal=at_most(8)),
    ]


def measure_chain(rounds: int, seeds: int) -> list[Measured]:
    """Measure plans for 40 workers, and 800 key groups of 20 operators, half of them one to one."""
    albic = run_chain(Albic(20), rounds, seeds)
    published = run_chain(Albic.as_published(max_migrations=20), rounds, seeds)
    cola = run_chain(Cola(), rounds, seeds)
    name = f"40 x 800, half 1-1, {rounds} rounds"
    return [
        Measured(f"{name}, albic: collocation", albic.collocation, "%", goal=at_least(50)),
        Measured(f"{name}, albic: distance, mean", albic.distance, "points", goal=at_most(0.6)),
        Measured(f"{name}, albic: most migrations", albic.migrations, "", goal=at_most(20)),
        *without_goals(f"{name}, albic as published", published),
        *without_goals(f"{name}, cola", cola),
    ]


@dataclass(frozen=True)
class Chain:
    """The plans of a placer for a chain of operators, over all rounds and seeds.

    Attributes:
        collocation: least collocation after the last round, in percent.
        distance: mean load distance, in points.
        migrations: largest number of migrations in a round.
    """

    collocation: float
    distance: float
    migrations: int


def run_chain(placer: Placer, rounds: int, seeds: int) -> Chain:
    shares, distances, moves = [], [], []
    for seed in range(seeds):
        cluster = even_cluster(40, 800, seed, operators=20)
        rng = np.random.default_rng((seed, 2))
        cluster = replace(cluster, traffic=chain_traffic(cluster, 0.5, rng))
        for _ in range(rounds):
            cluster = fluctuated(cluster, rng)
            plan = placer.clone().plan(cluster)
            cluster = applied(cluster, plan)
            distances.append(plan.distance_after)
            moves.append(len(plan.moves))
        shares.append(plan.collocation_after)
    return Chain(100 * min(shares), float(np.mean(distances)), max(moves))


def without_goals(name: str, chain: Chain) -> list[Measured]:
    return [
        Measured(f"{name}: collocation", chain.collocation, "%"),
        Measured(f"{name}: distance, mean", chain.distance, "points"),
        Measured(f"{name}: most migrations", chain.migrations, ""),
    ]


def _mean(found: list[PlacementPlan]) -> float:
    return float(np.mean([plan.distance_after for plan in found]))


def _worst(found: list[PlacementPlan]) -> float:
    return max(plan.distance_after for plan in found)


def main() -> None:
    options = Options("placers", __doc__)
    options.size("seeds", 10, 1, meaning="number of clusters drawn for each set-up")
    options.size("rounds", 50, 2, meaning="number of rounds for a chain of operators")
    args = options.parse()
    results = [
        *measure_sixty(args.seeds),
        *measure_thousand(),
        *measure_scale_in(),
        *measure_chain(args.rounds, min(3, args.seeds)),
    ]
    table = new_table(
        f"workers x key groups, change of load; {args.seeds} seeds, distances in points",
        labels=("measure",),
        numbers=("number", "goal", "reached"),
        long_labels=True,
    )
    for one in results:
        goal, reached = goal_columns(one.goal, one.number)
        table.add_row(one.measure, f"{one.number:.4g} {one.unit}", goal, reached)
    Console().print(table)
    write_report(args.json, [asdict(one) for one in results])


if __name__ == "__main__":
    main()
