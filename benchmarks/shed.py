"""Does a latency target hold at 150% load, and at what price?

8 instances that sleep (latency-bound). First the capacity is measured: records a second that go
through in batches that take as long as the target is. Then records arrive 1.5 times as fast:
without shedding, where waiting times grow without end, and with it.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from penstock.experiments.live_trials import LiveTrial, Phase, capacity_of, try_live
from penstock.policies.shedding import LoadAware, average
from penstock.sim import Application
from penstock.spark.lab import session

INSTANCES = 8
LOAD = 1.5
WARM_UP_S = 20


def row(name: str, trial: LiveTrial, stop_s: float) -> dict[str, float | str]:
    middle = (WARM_UP_S + stop_s) / 2
    return {
        "way": name,
        "waiting_ms": trial.waiting(WARM_UP_S, stop_s),
        "first_half_ms": trial.waiting(WARM_UP_S, middle),
        "second_half_ms": trial.waiting(middle, stop_s),
        "dropped": trial.dropped(WARM_UP_S, stop_s),
        "received": trial.received,
        # Records of the last batch are not processed yet if nothing is shed.
        "lost": trial.received - trial.processed - trial.shed if trial.shed else "-",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--target-ms", type=float, default=2_000)
    parser.add_argument("--json", type=Path, default=Path("penstock-out/shed.json"))
    args = parser.parse_args()
    workload = Application(records=200_000)
    spark = session(f"local[{INSTANCES}]", "penstock-shed")
    mean_ms = float(np.mean(workload.stream(1).costs_ms))
    capacity = capacity_of(spark, workload, INSTANCES, batch_ms=args.target_ms)
    console = Console()
    ideal = 1000 * INSTANCES / mean_ms
    console.print(
        f"capacity: {capacity:,.0f} records/s (without Spark's overhead it would be {ideal:,.0f})"
    )
    phases = (Phase(WARM_UP_S / 2, 0.5), Phase(args.seconds - WARM_UP_S / 2, LOAD))
    target = average(args.target_ms)
    ways = {
        "no shedding": None,
        "las": LoadAware(target),
        "las, cheap first": LoadAware(target, "cheap"),
    }
    rows = []
    for name, shedder in ways.items():
        trial = try_live(
            spark,
            workload,
            phases,
            name="trial",
            instances=INSTANCES,
            capacity_per_s=capacity,
            shedder=shedder,
            drain_s=3 * args.target_ms / 1000,
        )
        rows.append(row(name, trial, args.seconds - 2))
    overload = 1 - 1 / LOAD
    table = Table(
        title=f"{LOAD:.0%} load (latency-bound), target {args.target_ms:,.0f} ms on average "
        f"+-10%, overload {overload:.3f} +-0.03"
    )
    for column in ("way", "waiting ms", "first half", "second half", "dropped", "received", "lost"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for one in rows:
        shown = [f"{one[k]:,.0f}" for k in ("waiting_ms", "first_half_ms", "second_half_ms")]
        counts = [f"{one['received']:,}", str(one["lost"])]
        table.add_row(str(one["way"]), *shown, f"{one['dropped']:.3f}", *counts)
    console.print(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    report = {"capacity_per_s": capacity, "overload": overload, "rows": rows}
    args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
