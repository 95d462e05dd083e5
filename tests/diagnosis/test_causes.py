"""The named cause is the planted one, and the causes add up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written import Writer

from penstock.diagnosis import Cause, diagnose
from penstock.diagnosis.log import LogReader

STATE = ("StateStoreSave", "HashAggregate")


def diagnosed(writer):
    reader = LogReader()
    reader.read(writer.lines().splitlines())
    assert (reader.bad, reader.ended) == (0, True)
    return diagnose(reader.log)


def query_of(writer):
    (query,) = diagnosed(writer).queries
    return query


EVEN = np.full(8, 1000.0)
HEAVY = np.array([3000.0, *[600.0] * 7])
PINNED = [0] * 5 + [1, 2, 3]

# What a batch of each kind is like, from its number and a random generator.
BATCHES = {
    "uneven_costs": lambda n, rng: {"run_ms": rng.permutation(HEAVY)},
    "hot_keys": lambda n, rng: dict.fromkeys(("run_ms", "records"), rng.permutation(HEAVY)),
    "slow_executor": lambda n, rng: {"run_ms": np.full(16, 500.0), "slow": {1: 3.0}},
    "crowded_state": lambda n, rng: {
        "run_ms": EVEN,
        "executor": PINNED,
        "locality": "PROCESS_LOCAL",
    },
    "too_few_tasks": lambda n, rng: {"run_ms": [2000, 2000]},
    "garbage_collection": lambda n, rng: {"run_ms": EVEN, "gc_ms": 400},
    "disk_spill": lambda n, rng: {"run_ms": EVEN, "spilled": 50e6},
    "fetch_wait": lambda n, rng: {"run_ms": EVEN, "fetch_ms": 400},
    "python_start": lambda n, rng: {"run_ms": EVEN, "python_ms": 400},
    "failed_tasks": lambda n, rng: {"run_ms": EVEN.repeat(2), "failed": np.arange(16) < 8},
    "task_overhead": lambda n, rng: {"run_ms": np.full(200, 4.0), "overhead_ms": 16},
    "over_provisioned": lambda n, rng: {"run_ms": np.full(8, 50.0), "wait_ms": 3000},
    "under_provisioned": lambda n, rng: {"run_ms": EVEN * 1.5**n, "rows": int(1000 * 1.5**n)},
    "behind": lambda n, rng: {"run_ms": EVEN, "rows": 1000, "backlog": 500 * n},
    "healthy": lambda n, rng: {"run_ms": EVEN + rng.uniform(0, 40, 8)},
}


def planted(kind, steps=("MapInArrow",)):
    """Return the log of ten batches with a planted cause, on eight slots."""
    executors = 4 if kind in ("slow_executor", "crowded_state") else 1
    writer = Writer(executors, cores=8 // executors, steps=steps)
    writer.steps = STATE if kind == "crowded_state" else steps
    rng = np.random.default_rng(0)
    for number in range(10):
        writer.batch(**BATCHES[kind](number, rng))
    return writer


@pytest.mark.parametrize(
    "kind, cure",
    [
        ("uneven_costs", "balance"),
        ("hot_keys", "balance"),
        ("slow_executor", "balance"),
        ("crowded_state", "attach(place=)"),
        ("too_few_tasks", "spark.sql.shuffle.partitions"),
        ("garbage_collection", "spark.executor.memory"),
        ("disk_spill", "spark.executor.memory"),
        ("fetch_wait", "spark.reducer.maxSizeInFlight"),
        ("python_start", "spark.python.worker.reuse"),
        ("failed_tasks", "look at failed tasks"),
        ("task_overhead", "spark.sql.shuffle.partitions"),
        ("over_provisioned", "attach(scale=)"),
        ("under_provisioned", "attach(scale=)"),
    ],
)
def test_the_main_cause_is_the_planted_one(kind, cure):
    query = query_of(planted(kind))
    assert query.main_cause == kind
    assert cure in [one.cure for one in query.cures]
    for one in query.cures:
        assert one.low <= one.gain <= one.high


def test_hot_keys_of_an_aggregation_are_cured_by_aggregate():
    query = query_of(planted("hot_keys", STATE))
    assert query.main_cause == Cause.HOT_KEYS
    cures = [one.cure for one in query.cures]
    assert cures[0] == "aggregate"
    assert "balance" not in cures


def test_a_growing_backlog_is_a_lack_of_slots():
    query = query_of(planted("behind"))
    assert query.main_cause == Cause.UNDER_PROVISIONED
    assert {"attach(scale=)", "shed"} <= {one.cure for one in query.cures}


def test_a_healthy_job_has_nothing_to_gain():
    query = query_of(planted("healthy"))
    assert (query.main_cause, query.cures) == (Cause.HEALTHY, ())


def test_fewer_slots_are_advised_with_the_price():
    query = query_of(planted("over_provisioned"))
    (cure,) = [one for one in query.cures if one.cure == "attach(scale=)"]
    assert cure.low < cure.gain < cure.high <= 1.0
    # Eight tasks of 54 ms run one after the other; 90 ms of a batch are no stages.
    assert cure.gain == pytest.approx((90 + 54) / (90 + 8 * 54), rel=0.05)
    assert cure.what.startswith("1 of 8 slots are enough")


def cure_of(query, name):
    return next(one for one in query.cures if one.cure == name)


def test_more_slots_gain_what_arrives_in_excess_and_no_more():
    """Without a limit of the source, a query that keeps up processes what arrives."""
    query = query_of(planted("under_provisioned"))
    cure = cure_of(query, "attach(scale=)")
    assert cure.gain == pytest.approx(1.5, rel=0.05)
    assert "about 15 slots instead of 8" in cure.what or "about 16 slots" in cure.what
    limited = cure_of(query_of(planted("behind")), "attach(scale=)")
    assert limited.gain > 1.5


def test_state_is_placed_again_task_by_task():
    """Five of eight equal partitions on one of four executors with two slots each."""
    query = query_of(planted("crowded_state"))
    cure = cure_of(query, "attach(place=)")
    # Three rounds of a second become one; 90 ms of a batch are no stages.
    assert cure.gain == pytest.approx(3.1 / 1.1, rel=0.05)


def test_more_memory_may_save_little_of_garbage_collection():
    query = query_of(planted("garbage_collection"))
    cure = cure_of(query, "spark.executor.memory")
    assert cure.low == 1.0
    assert cure.gain == pytest.approx(1.09 / (1.09 - 0.35 * 0.4), rel=0.03)


def test_times_of_phases_add_up_to_the_batches():
    query = query_of(planted("uneven_costs"))
    phases = ("planning", "offsets_and_commits", "scheduling", "stages")
    assert sum(query.time_s[name] for name in phases) == pytest.approx(query.duration_s, rel=0.01)
    assert len(query.examined) == query.batches - 2


def test_the_gain_of_balance_is_that_of_the_ideal_at_most():
    query = query_of(planted("uneven_costs"))
    (cure,) = [one for one in query.cures if one.cure == "balance"]
    assert 1.3 < cure.gain < cure.high < query.duration_s / query.time_s["ideal"]


def test_a_batch_job_is_a_query_of_its_own():
    writer = Writer(cores=8)
    for _ in range(3):
        writer.batch([3000, 100, 100, 100, 100, 100, 100, 100], streaming=False)
    query = query_of(writer)
    assert (query.name, query.streaming, query.batches) == ("nightly sums", False, 3)
    assert query.main_cause == Cause.UNEVEN_COSTS


def test_a_batch_that_was_cut_off_is_left_out():
    """A query that is stopped leaves a batch without a report, in which tasks never ended."""
    writer = planted("under_provisioned")
    whole = query_of(writer)
    writer.batch([10.0, 10.0], rows=9_999)
    cut = writer.events.pop()
    assert "QueryProgressEvent" in cut["Event"]
    query = query_of(writer)
    assert query.batches == whole.batches + 1
    assert [one.number for one in query.examined] == [one.number for one in whole.examined]
    assert query.main_cause == Cause.UNDER_PROVISIONED


times = st.lists(st.floats(1, 3000), min_size=1, max_size=20)


@settings(max_examples=40, deadline=None)
@given(
    run_ms=times,
    gc=st.floats(0, 0.5),
    records=st.integers(0, 1000),
    executors=st.integers(1, 3),
    stateful=st.booleans(),
)
def test_causes_and_ideal_add_up_to_the_time_of_stages(run_ms, gc, records, executors, stateful):
    writer = Writer(executors=executors, cores=2, steps=STATE if stateful else ("MapInArrow",))
    pinned = np.arange(len(run_ms)) % executors if stateful else None
    more = {} if pinned is None else {"executor": pinned, "locality": "PROCESS_LOCAL"}
    gc_ms = gc * np.array(run_ms)
    writer.batch(run_ms, gc_ms=gc_ms, records=records, **more)
    query = query_of(writer)
    for split in query.splits[0]:
        assert sum(split.causes_ms.values()) + split.ideal_ms == pytest.approx(split.wall_ms)
        assert min(split.causes_ms.values(), default=0.0) >= 0
