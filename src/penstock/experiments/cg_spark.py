"""Throughput and latency of groupings on a cluster (Figures 14 and 15), on Spark instead of Storm.

Four executors of two slots; in the second setting two of them run at 30% of their speed. The
operator sleeps where the paper's waits busily, as there are more slots than cores: the trials are
latency-bound. They compare durations of micro-batches: after it all records of a batch are done.
"""

from dataclasses import replace

from penstock.experiments.base import Experiment, Extra, Sample, X, samples
from penstock.experiments.batch_trials import ByPenstock, Contender, Load, try_out
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
# Several instances for each slot: Spark gives the next one to the idle executor.
FINE = "cg_4_per_slot"


def _contenders(extra: Extra) -> dict[str, Contender]:
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
    found = []
    for trial in try_out(session(MASTER), load, _contenders(extra), instances=SLOTS):
        batch_ms = trial.settled(WARM_UP).mean()
        numbers = {
            "batch_ms": batch_ms,
            "throughput_per_s": 1000 * RECORDS / batch_ms,
            "records": trial.records,
        }
        found += samples(trial.name, x, numbers)
    return found


def _claims(table: Table) -> list[Claim]:
    def gain(series: str, x: str) -> float:
        rate = "throughput_per_s"
        return table.mean(series, x, rate) / table.mean("key_hash", x, rate)

    records = {row.mean for row in table.rows if row.metric == "records"}
    even = [table.mean(s, EQUAL, "batch_ms") for s in ("pkg", "round_robin", "cg")]
    return [
        at_least("cg: throughput over key_hash, equal executors", 1.0, gain("cg", EQUAL)),
        Claim(
            claim="pkg, round_robin and cg are alike with equal executors (largest over smallest)",
            paper=1.15,
            ours=round(max(even) / min(even), 4),
            holds=max(even) <= 1.15 * min(even),
        ),
        at_least("cg: throughput over key_hash, unequal executors", 2.0, gain("cg", UNEQUAL)),
        at_least(f"{FINE}: throughput over key_hash, unequal", 2.0, gain(FINE, UNEQUAL)),
        Claim(
            claim="every record is processed exactly once, in every run",
            paper=BATCHES * RECORDS,
            ours=", ".join(f"{n:.0f}" for n in sorted(records)),
            holds=records == {float(BATCHES * RECORDS)},
        ),
    ]


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="cg-spark",
        figure="CG Figures 14 and 15",
        summary="throughput on Spark (latency-bound)",
        details="4 executors of 2 slots, operator that sleeps",
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
