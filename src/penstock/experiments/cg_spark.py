"""Throughput and latency of groupings on a cluster (Figures 14 and 15), on Spark instead of Storm.

Four executors of two slots; in the second setting two of them run at 30% of their speed. The
operator sleeps where the paper's waits busily: latency-bound, as there are more slots than cores.
What is compared is the duration of micro-batches, which is when all their records are done.
"""

from dataclasses import replace

from penstock.experiments.base import Experiment, Extra, Sample, X
from penstock.experiments.batch_trials import ByPenstock, Load, Way, try_out
from penstock.experiments.results import Claim, Table, at_least
from penstock.policies.grouping import Consistent, Grouping
from penstock.sim import Words
from penstock.spark.lab import session

EXECUTORS, SLOTS = 4, 8
MASTER = f"local-cluster[{EXECUTORS},{SLOTS // EXECUTORS},1024]"
BATCHES, RECORDS, WARM_UP = 9, 2_000, 3
COST_MS = 2.0
EQUAL, UNEQUAL = "equal executors", "two of four at 30%"
SLOW = (("0", 1 / 0.3), ("1", 1 / 0.3))
# A few instances a slot: Spark gives the next one to the executor that is idle.
FINE = "cg_4_per_slot"


def _ways(extra: Extra) -> dict[str, Way]:
    names = "key_hash", "pkg", "round_robin", "cg"
    groupings = {name: Grouping.named(name, instances=SLOTS) for name in names}
    groupings[FINE] = Consistent(4 * SLOTS, virtual_workers=5)
    groupings |= {series: make(SLOTS) for series, make in extra.items()}
    return {name: ByPenstock(grouping) for name, grouping in groupings.items()}


def _cluster(x: X, seed: int, extra: Extra) -> list[Sample]:
    stream = Words(BATCHES * RECORDS, COST_MS).stream(seed)
    load = Load.of(stream.keys, stream.costs_ms, BATCHES)
    if x == UNEQUAL:
        load = replace(load, slow_executors=SLOW)
    samples = []
    for trial in try_out(session(MASTER), load, _ways(extra), SLOTS):
        batch_ms = float(trial.settled(WARM_UP).mean())
        samples += [
            Sample(trial.name, x, "batch_ms", batch_ms),
            Sample(trial.name, x, "throughput_per_s", 1000 * RECORDS / batch_ms),
            Sample(trial.name, x, "records", float(trial.records)),
        ]
    return samples


def _claims(table: Table) -> list[Claim]:
    def gain(series: str, x: str) -> float:
        rate = "throughput_per_s"
        return table.mean(series, x, rate) / table.mean("key_hash", x, rate)

    records = {row.mean for row in table.rows if row.metric == "records"}
    even = [table.mean(s, EQUAL, "batch_ms") for s in ("pkg", "round_robin", "cg")]
    return [
        at_least("cg: throughput over key_hash, equal executors", 1.0, gain("cg", EQUAL)),
        Claim(
            "pkg, round_robin and cg are alike with equal executors (largest over smallest)",
            1.15,
            round(max(even) / min(even), 4),
            max(even) <= 1.15 * min(even),
        ),
        at_least("cg: throughput over key_hash, unequal executors", 2.0, gain("cg", UNEQUAL)),
        at_least(f"{FINE}: throughput over key_hash, unequal", 2.0, gain(FINE, UNEQUAL)),
        Claim(
            "every record is processed exactly once, in every run",
            BATCHES * RECORDS,
            ", ".join(f"{n:.0f}" for n in sorted(records)),
            records == {float(BATCHES * RECORDS)},
        ),
    ]


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="cg-spark",
        figure="CG Figures 14 and 15",
        summary="throughput and latency on 4 executors, operator that sleeps (latency-bound)",
        x_label="cluster",
        xs=(EQUAL, UNEQUAL),
        run=_cluster,
        claims=_claims,
        streams=1,
        on_driver=True,
        master=MASTER,
        main_metric="throughput_per_s",
        metrics=("throughput_per_s", "batch_ms"),
        params={
            "latency_bound": True,
            "stream": "words of English texts (package wordfreq), in place of Twitter's",
            "cost_ms": COST_MS,
            "records_per_batch": RECORDS,
            "batches": BATCHES,
            "warm_up_batches": WARM_UP,
            "slots": SLOTS,
        },
    ),
)
