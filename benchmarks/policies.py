"""How fast do groupings route, shedders decide and the simulator run? On one core.

Every number is the best of several runs. Compare the ratios to round robin in the same run, rather
than numbers of different machines. The goals are those of the project, for a current core.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from rich.console import Console

from common import Goal, Options, at_least, best_s, goal_columns, new_table, write_report
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
from penstock.sim import Stream, Synthetic, simulate
from penstock.sim.workloads import zipf_keys

INSTANCES = 8


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The speed of a policy.

    Attributes:
        action: what was timed: route, simulate or admit.
        policy: name of the policy.
        million_per_s: millions of records per second.
        ratio_to_round_robin: speed relative to routing by round robin.
        goal: goal for the speed.
    """

    action: str
    policy: str
    million_per_s: float
    ratio_to_round_robin: float
    goal: Goal | None = None


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


def measure_route(stream: Stream, runs: int) -> list[Speed]:
    """Measure groupings that have learnt."""
    seconds = {}
    for name, make in groupings(stream).items():
        learnt = make()
        simulate(learnt, stream)
        seconds[name] = best_s(lambda g=learnt: g.route(stream.keys, stream.arrivals_ms), runs)
    goals = {"posg": at_least(15), "key_hash": at_least(100)}
    return compare("route", seconds, len(stream), goals=goals)


def measure_simulate(stream: Stream, runs: int) -> list[Speed]:
    """Measure the simulator with each grouping."""
    seconds = {
        name: best_s(lambda m=make: simulate(m(), stream), runs)
        for name, make in groupings(stream).items()
    }
    goals = {"posg": at_least(2), "round_robin": at_least(10)}
    return compare("simulate", seconds, len(stream), goals=goals)


def compare(
    action: str, seconds: dict[str, float], records: int, *, goals: dict[str, Goal]
) -> list[Speed]:
    base_s = seconds["round_robin"]
    return [
        speed_of(action, name, records, taken_s=taken_s, base_s=base_s, goal=goals.get(name))
        for name, taken_s in seconds.items()
    ]


def speed_of(
    action: str, policy: str, records: int, *, taken_s: float, base_s: float, goal: Goal | None
) -> Speed:
    """Return the speed of a policy from its own time, and from that of round robin."""
    return Speed(
        action=action,
        policy=policy,
        million_per_s=records / taken_s / 1e6,
        ratio_to_round_robin=base_s / taken_s,
        goal=goal,
    )


@dataclass(frozen=True)
class Case:
    """A grouping for skewed keys, the Zipf exponent of its keys, and the goal for its speed."""

    make: Callable[[], Grouping]
    exponent: float
    goal: Goal | None = None


def measure_choices(records: int, runs: int) -> list[Speed]:
    """Measure groupings for skewed keys: 100,000 keys, and loads since the start."""
    cases = {
        "pkg, 10 bins, Zipf-0.8": Case(lambda: PartialKey(10, half_life=None), 0.8, at_least(100)),
        "potc, 10 bins, Zipf-0.8": Case(lambda: TwoChoices(10, half_life=None), 0.8),
        "porc, 10 bins, Zipf-0.8": Case(lambda: RandomChoices(10, half_life=None), 0.8),
        "porc, 1,000 bins, Zipf-0.8": Case(
            lambda: RandomChoices(1_000, half_life=None), 0.8, at_least(40)
        ),
        "porc, 1,000 bins, Zipf-1.4": Case(
            lambda: RandomChoices(1_000, half_life=None), 1.4, at_least(4)
        ),
        "bounded_hash, 1,000 bins, Zipf-1.4": Case(lambda: BoundedHash(1_000, half_life=None), 1.4),
        "cg, 10 x 20, Zipf-1.4": Case(lambda: Consistent(10, half_life=None), 1.4),
    }
    results = []
    for name, case in cases.items():
        rng = np.random.default_rng(0)
        keys = zipf_keys(rng, records, 100_000, exponent=case.exponent)
        base_s = best_s(lambda k=keys: RoundRobin(10).route(k), runs)
        taken_s = best_s(lambda m=case.make, k=keys: m().route(k), runs)
        results.append(
            speed_of("route", name, records, taken_s=taken_s, base_s=base_s, goal=case.goal)
        )
    return results


def measure_admit(records: int, runs: int) -> list[Speed]:
    """Measure shedders that have learnt, with 25% more work than capacity."""
    drawn = Synthetic(records=records, min_cost_ms=0.1, max_cost_ms=6.4).stream(0)
    stream = drawn.provisioned(1, 0.75)
    target = average("6.4 ms")
    base_s = best_s(lambda: RoundRobin(1).route(stream.keys), runs)
    shedders: dict[str, Shedder] = {
        "random_drop": RandomDrop(0.25),
        "mean_cost": MeanCost(target, 3.25),
        "las": LoadAware(target),
        "las, keep cheap": LoadAware(target, keep="cheap"),
        "las_as_published": LoadAwareAsPublished(target),
    }
    goals = {"las": at_least(12), "las, keep cheap": at_least(12)}
    results = []
    for name, shedder in shedders.items():
        simulate(RoundRobin(1), stream.part(0, 50_000), shedder=shedder)
        taken_s = best_s(lambda s=shedder: s.admit(stream.keys, stream.arrivals_ms), runs)
        results.append(
            speed_of("admit", name, records, taken_s=taken_s, base_s=base_s, goal=goals.get(name))
        )
    return results


def main() -> None:
    options = Options("policies", __doc__)
    options.size("records", 1_000_000, 20_000, meaning="number of records")
    options.size("runs", 7, 1, meaning="number of timed runs, of which the best counts")
    args = options.parse()
    stream = Synthetic(records=args.records).stream(0).provisioned(INSTANCES, 1.02)
    results = [
        *measure_route(stream, args.runs),
        *measure_simulate(stream, args.runs),
        *measure_choices(args.records, args.runs),
        *measure_admit(args.records, args.runs),
    ]
    table = new_table(
        f"{args.records:,} records, one core; Zipf-1 and {INSTANCES} instances unless named",
        labels=("action", "policy"),
        numbers=("M records/s", "to round robin", "goal", "reached"),
        long_labels=True,
    )
    for one in results:
        speed, ratio = f"{one.million_per_s:.1f}", f"{one.ratio_to_round_robin:.4f}"
        goal, reached = goal_columns(one.goal, one.million_per_s)
        table.add_row(one.action, one.policy, speed, ratio, goal, reached)
    Console().print(table)
    write_report(args.json, [asdict(one) for one in results])


if __name__ == "__main__":
    main()
