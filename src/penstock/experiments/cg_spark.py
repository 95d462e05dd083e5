"""Throughput, latency and memory of groupings on a cluster (CG Figures 14 and 15), on Spark.

The paper has 24 workers and 8 sources on 8 machines, and delays of 0.1 to 1 ms. Ours are scaled: a
third of the workers and of the sources (8 and 3), on four executors of two slots. The delays are
ten times as long, because a micro-batch takes a tenth of a second that Storm does not need. Two of
the four executors run at 30% of their speed in the second setting (paper: two of all executors).

The operator sleeps where the paper's waits busily, as there are more slots than cores: the trials
are latency-bound. They compare durations of micro-batches: after it all records of a batch are
done. Memory is the mean number of instances that a key has been on (key grouping: 1).
"""

from dataclasses import replace

from penstock.experiments.base import Experiment, Extra, Sample, X, samples
from penstock.experiments.batch_trials import ByPenstock, Contender, Load, try_out
from penstock.experiments.claims import Claim, at_least, at_most
from penstock.experiments.posg_spark import exactly_once
from penstock.experiments.results import Table
from penstock.policies.grouping import Consistent, Grouping
from penstock.sim import Words
from penstock.spark.lab import session

EXECUTORS, SLOTS, SOURCES = 4, 8, 3
MASTER = f"local-cluster[{EXECUTORS},{SLOTS // EXECUTORS},1024]"
BATCHES, RECORDS, WARM_UP = 5, 1_200, 2
DELAYS_MS = (1.0, 4.0, 10.0)
EQUAL, UNEQUAL = "equal", "two at 30%"
CLUSTERS = EQUAL, UNEQUAL
SLOW = (("0", 1 / 0.3), ("1", 1 / 0.3))
# Several instances for each slot: Spark gives the next one to the idle executor.
FINE = "cg_4_per_slot"
KEY, PUBLISHED, OURS = "key_hash", "cg_as_published", "cg"


def setting(cluster: str, delay_ms: float) -> str:
    """Return the value of x for a cluster and a delay."""
    return f"{cluster}, {delay_ms:g} ms"


SETTINGS = {setting(c, d): (c, d) for c in CLUSTERS for d in DELAYS_MS}


def _contenders(extra: Extra) -> dict[str, Contender]:
    groupings = {name: Grouping.named(name, instances=SLOTS) for name in (KEY, "pkg")}
    groupings["round_robin"] = Grouping.named("round_robin", instances=SLOTS)
    groupings[PUBLISHED] = Consistent.as_published(SLOTS)
    groupings[OURS] = Consistent(SLOTS)
    groupings[FINE] = Consistent(4 * SLOTS, virtual_workers=5)
    groupings |= {series: make(SLOTS) for series, make in extra.items()}
    return {name: ByPenstock(grouping) for name, grouping in groupings.items()}


def _cluster(x: X, seed: int, extra: Extra) -> list[Sample]:
    kind, delay_ms = SETTINGS[str(x)]
    stream = Words(BATCHES * RECORDS, delay_ms).stream(seed)
    load = replace(Load.of(stream.keys, stream.costs_ms, BATCHES), sources=SOURCES)
    if kind == UNEQUAL:
        load = replace(load, slow_executors=SLOW)
    found = []
    for trial in try_out(session(MASTER), load, _contenders(extra), instances=SLOTS):
        batch_ms = trial.settled(WARM_UP).mean()
        numbers = {
            "batch_ms": batch_ms,
            "throughput_per_s": 1000 * RECORDS / batch_ms,
            "memory": trial.memory,
            "lost": BATCHES * RECORDS - trial.records,
        }
        found += samples(trial.name, x, numbers)
    return found


def claims(table: Table) -> list[Claim]:
    """Figures 14 and 15."""
    return [*_equal(table), *_unequal(table), exactly_once(table)]


def _gains(table: Table, series: str, cluster: str) -> list[float]:
    """Return the throughput relative to key grouping's, for each delay."""
    rate = "throughput_per_s"
    xs = [x for x in table.means(KEY, rate) if str(x).startswith(f"{cluster},")]
    return [table.mean(series, x, rate) / table.mean(KEY, x, rate) for x in xs]


def _equal(table: Table) -> list[Claim]:
    source = "Figure 14"
    found = [
        at_least(
            f"{series}: throughput over key_hash's, equal, smallest of all delays",
            min(_gains(table, series, EQUAL)),
            paper="superior",
            source=source,
            goal=1.0,
        )
        for series in ("pkg", "round_robin", PUBLISHED, OURS)
    ]
    memory = {s: _memory(table, s) for s in (KEY, "pkg", "round_robin", PUBLISHED, OURS)}
    # Shares of the cluster's memory in the paper, in percent.
    paper = {"pkg": 8.5, PUBLISHED: 8.5, OURS: 8.5, "round_robin": 14.0}
    return found + [
        at_most(
            f"{series}: memory over key_hash's",
            memory[series] / memory[KEY],
            paper=f"{share:g}% and 7%",
            source=source,
            goal=round(share / 7, 2),
        )
        for series, share in paper.items()
    ]


def _memory(table: Table, series: str) -> float:
    found = [v for x, v in table.means(series, "memory").items() if str(x).startswith(EQUAL)]
    return sum(found) / len(found)


def _unequal(table: Table) -> list[Claim]:
    found = []
    for series in (PUBLISHED, OURS, FINE):
        gains = _gains(table, series, UNEQUAL)
        found += [
            at_least(
                f"{series}: throughput over key_hash's, two at 30%, largest of all delays",
                max(gains),
                paper=3.44,
                source="Figure 15",
            ),
            # All records of a batch are done at its end: latency and throughput are inverse.
            at_least(
                f"{series}: latency of key_hash over its own, two at 30%, largest",
                max(gains),
                paper=2,
                source="Figure 15",
            ),
        ]
    return found


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="cg-spark",
        figure="CG Figures 14 and 15",
        summary="throughput on Spark (latency-bound)",
        details="4 executors of 2 slots, 3 sources, operator that sleeps",
        x_label="cluster and delay",
        xs=tuple(SETTINGS),
        run=_cluster,
        claims=claims,
        streams=1,
        on_driver=True,
        master=MASTER,
        main_metric="throughput_per_s",
        metrics=("throughput_per_s", "batch_ms", "memory"),
        params={
            "latency_bound": True,
            "stream": "words of English texts (package wordfreq), in place of Twitter's",
            "delays_ms": f"{list(DELAYS_MS)}: ten times the paper's 0.1 to 1 ms",
            "workers": f"{SLOTS}: a third of the paper's 24",
            "sources": f"{SOURCES}: a third of the paper's 8",
            "records_per_batch": RECORDS,
            "batches": BATCHES,
            "warm_up_batches": WARM_UP,
        },
        depends_on_machine="all durations and throughputs",
    ),
)
