"""How much of a core does planning take for `penstock.attach`? With synthetic observations.

Every period the scaling loop plans executors, and the placement loop plans where 40 key groups of
each stateful operator should live.

    python benchmarks/planning.py
"""

import time

import numpy as np
from rich.console import Console

from common import Options, write_report
from penstock.control import Limits, Running, ScalingLoop, Timeline
from penstock.control.keygroups import KeyGroups, Ran
from penstock.control.placement_loop import PlacementLoop
from penstock.control.timeline import Look, Work
from penstock.placement import Albic
from penstock.scaling import Preventive

PERIOD_S = 10.0
KEY_GROUPS = 40
# Periods that are not counted: code is compiled in them.
WARM_UP = 5


def planning_ms(operators: int, executors: int, periods: int) -> float:
    """Return the CPU time of one period's planning, the median of all periods."""
    names = [f"operator{i}" for i in range(operators)]
    timeline = Timeline(PERIOD_S, PERIOD_S)
    scaling = ScalingLoop(
        "synthetic",
        Preventive(max_executors=2 * executors),
        Limits(min_executors=1, max_executors=2 * executors, slots=4),
        timeline=timeline,
        executors=executors,
    )
    groups = KeyGroups()
    placement = PlacementLoop("synthetic", Albic(max_migrations=10), groups, dry_run=True)
    slots = dict.fromkeys(map(str, range(executors)), 4)
    generator = np.random.default_rng(1)
    rows, spent_s = 0.0, []
    for number in range(periods):
        rows += 10_000 * generator.uniform(0.9, 1.1)
        work = Work(rows, rows, 3 * rows)
        look = Look(
            began_s=PERIOD_S * number,
            taken_s=0.9 * PERIOD_S,
            rows=10_000,
            behind=0,
            work=work,
            operators=dict.fromkeys(names, work),
        )
        busy_ms = generator.uniform(50, 150, (operators, KEY_GROUPS))
        ran = [
            Ran(
                group=(operator, part),
                executor=str((KEY_GROUPS * operator + part) % executors),
                busy_ms=float(ms),
            )
            for (operator, part), ms in np.ndenumerate(busy_ms)
        ]
        start = time.process_time()
        timeline.add(look)
        scaling.plan(PERIOD_S * number, Running(active=True))
        groups.add(ran, 1000 * PERIOD_S)
        placement.plan(slots)
        spent_s.append(time.process_time() - start)
    return 1000 * float(np.median(spent_s[WARM_UP:]))


def main() -> None:
    options = Options("planning", __doc__)
    options.size("operators", 100, 5, meaning="number of stateful operators")
    options.size("executors", 1_000, 20, meaning="number of executors")
    options.size("periods", 60, WARM_UP + 5, meaning=f"number of periods; {WARM_UP} are not timed")
    args = options.parse()
    taken_ms = planning_ms(args.operators, args.executors, args.periods)
    share = taken_ms / (1000 * PERIOD_S)
    Console().print(
        f"planning for {args.operators:,} operators, {KEY_GROUPS * args.operators:,} key groups "
        f"and {args.executors:,} executors every {PERIOD_S:g} s: {share:.3%} of a core (goal < 1%)"
    )
    write_report(args.json, {"planning_ms": taken_ms, "share": share})


if __name__ == "__main__":
    main()
