"""Does a latency target hold at 150% load, and how many records does it cost?

8 instances that sleep (latency-bound). First the capacity is measured: the rate at which records go
through in batches that take as long as the target. Then records arrive at 1.5 times that rate,
without shedding, where waiting times grow without end, and with it.
"""

from dataclasses import asdict, dataclass

import numpy as np
from rich.console import Console

from common import Options, new_table, write_report
from penstock.experiments.live_trials import LiveTrial, Phase, capacity_of, try_live
from penstock.policies.shedding import LoadAware, Shedder, average
from penstock.sim import Application
from penstock.spark.lab import session

LOAD = 1.5


@dataclass(frozen=True, kw_only=True)
class Result:
    """Waiting times and counts of a trial.

    Attributes:
        way: name of the way to shed.
        waiting_ms: mean waiting time, after the warm-up.
        first_half_ms: mean waiting time in the first half of that time.
        second_half_ms: mean waiting time in the second half of that time.
        dropped: share of records that were dropped.
        received: number of records received.
        lost: number of records neither processed nor shed; None without shedding, where records of
            the last batch are not yet processed.
    """

    way: str
    waiting_ms: float
    first_half_ms: float
    second_half_ms: float
    dropped: float
    received: int
    lost: int | None


def result_of(way: str, trial: LiveTrial, *, start_s: float, stop_s: float) -> Result:
    middle_s = (start_s + stop_s) / 2
    return Result(
        way=way,
        waiting_ms=trial.waiting(start_s, stop_s),
        first_half_ms=trial.waiting(start_s, middle_s),
        second_half_ms=trial.waiting(middle_s, stop_s),
        dropped=trial.dropped(start_s, stop_s),
        received=trial.received,
        lost=trial.received - trial.processed - trial.shed if trial.shed else None,
    )


def show(results: list[Result], target_ms: float, overload: float) -> None:
    table = new_table(
        f"{LOAD:.0%} load (latency-bound); goal: {target_ms:,.0f} ms on average +-10%, "
        f"dropped {overload:.3f} +-0.03",
        labels=("way",),
        numbers=("waiting ms", "first half", "second half", "dropped", "received", "lost"),
    )
    for one in results:
        table.add_row(
            one.way,
            f"{one.waiting_ms:,.0f}",
            f"{one.first_half_ms:,.0f}",
            f"{one.second_half_ms:,.0f}",
            f"{one.dropped:.3f}",
            f"{one.received:,}",
            "-" if one.lost is None else str(one.lost),
        )
    Console().print(table)


def main() -> None:
    options = Options("shed", __doc__)
    options.size("instances", 8, 2, meaning="number of tasks that share the work")
    options.size("seconds", 60.0, 6.0, meaning="length of a run; its first third is not measured")
    options.size("target_ms", 2_000.0, 500.0, meaning="mean waiting time to hold")
    args = options.parse()
    workload = Application(records=200_000)
    spark = session(f"local[{args.instances}]", "penstock-shed")
    ideal = 1000 * args.instances / float(np.mean(workload.stream(1).costs_ms))
    capacity = capacity_of(spark, workload, args.instances, batch_ms=args.target_ms)
    Console().print(
        f"capacity: {capacity:,.0f} records/s (without Spark's overhead it would be {ideal:,.0f})"
    )
    warm_up_s = args.seconds / 3
    phases = (Phase(warm_up_s / 2, 0.5), Phase(args.seconds - warm_up_s / 2, LOAD))
    target = average(args.target_ms)
    ways: dict[str, Shedder | None] = {
        "no shedding": None,
        "las": LoadAware(target),
        "las, keep cheap": LoadAware(target, keep="cheap"),
    }
    results = []
    for way, shedder in ways.items():
        trial = try_live(
            spark,
            workload,
            phases,
            name="trial",
            instances=args.instances,
            capacity_per_s=capacity,
            shedder=shedder,
        )
        results.append(result_of(way, trial, start_s=warm_up_s, stop_s=args.seconds - 2))
    overload = 1 - 1 / LOAD
    show(results, args.target_ms, overload)
    report = {"capacity_per_s": capacity, "overload": overload}
    write_report(args.json, {**report, "results": [asdict(one) for one in results]})


if __name__ == "__main__":
    main()
