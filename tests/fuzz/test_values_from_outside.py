"""Journals, traces, clocks and loads from outside: used, or refused with one line.

Every registered shedder, scaler and placer meets them. `make soak` tries more inputs.
"""

import json
import math
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from outside import NUMBERS, accepted_or_refused

from penstock.control.trace import METADATA, SCHEMA, BatchNumbers
from penstock.policies.costs import Exact
from penstock.policies.placement import Cluster, Placer, Traffic
from penstock.policies.scaling import History, Observed, Scaler, Topology
from penstock.policies.shedding import Shedder, average
from penstock.rehearsal.compare_journals import compare_journals, is_journal, read_journal
from penstock.rehearsal.recorded import recorded
from penstock.rehearsal.trace import read_trace

JUNK = st.none() | st.booleans() | st.integers() | NUMBERS | st.text(max_size=6) | st.just([])
WORK = {"operator": "enrich", "batch": "1", "instance": 0, "busy_ms": 5.0, "records": 3}
COST = {"query": "orders", "cost_ms": 2.0}
quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def entries(draw):
    """Entries of a journal; some of their values are others."""
    shape = draw(st.sampled_from([WORK, COST]))
    entry = {"time": 1.0, "kind": "observation", **shape}
    for name in draw(st.lists(st.sampled_from(sorted(entry)), max_size=2)):
        entry[name] = draw(JUNK)
    return entry


@given(lines=st.lists(entries(), min_size=1, max_size=12))
@example(lines=[{"time": 1.0, "kind": "observation", **WORK, "instance": "x"}])
@example(lines=[{"time": 1.0, "kind": "observation", **WORK, "instance": 10**30}])
@example(lines=[{"time": 1.0, "kind": "observation", **COST, "cost_ms": []}])
@quick
def test_a_journal_with_other_values_is_compared_or_refused(lines, tmp_path):
    file = tmp_path / "journal"
    file.write_text("\n".join(map(json.dumps, lines)))
    is_journal(file)
    found = accepted_or_refused(read_journal, file)
    if found is not None:
        accepted_or_refused(compare_journals, found, found)


NUMBERS_OF_BATCH = BatchNumbers(
    operator="enrich",
    query="sales",
    batch="0",
    began_ms=1.7e12,
    duration_ms=900.0,
    received=8,
    shed=0,
    instances=2,
    grouping="round_robin",
    executors={"a": 2},
)


RECORD = {
    "batch": 0,
    "task": 0,
    "executor": "a",
    "key": 7,
    "size": math.nan,
    "cost_ms": 2.0,
    "arrival_ms": 1.7e12,
    "shed": False,
    "weight": 1.0,
}
OTHERS = {
    "executor": st.sampled_from([None, "", "a", "b\n"]),
    "key": st.integers(-(2**63), 2**63 - 1),
    "size": NUMBERS,
    "cost_ms": NUMBERS | st.floats(0, 1e4),
    "arrival_ms": NUMBERS | st.floats(0, 2e12),
    "shed": st.booleans(),
    "weight": NUMBERS | st.floats(0, 100),
}


@given(data=st.data(), records=st.integers(0, 8))
@settings(
    max_examples=max(8, settings.default.max_examples // 10),  # each one is simulated
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_trace_with_other_values_is_read_or_refused(data, records, tmp_path):
    def drawn(values):
        return data.draw(st.lists(values, min_size=records, max_size=records))

    fields = json.loads(json.dumps(asdict(NUMBERS_OF_BATCH)))
    for name in data.draw(st.lists(st.sampled_from(sorted(fields)), max_size=2)):
        fields[name] = data.draw(JUNK | st.dictionaries(st.text(max_size=2), JUNK, max_size=2))
    columns = {name: [value] * records for name, value in RECORD.items()}
    for name in data.draw(st.lists(st.sampled_from(sorted(OTHERS)), max_size=2)):
        columns[name] = drawn(OTHERS[name])
    table = pa.table(columns, schema=SCHEMA)
    table = table.replace_schema_metadata({METADATA: json.dumps(fields).encode()})
    pq.write_table(table, tmp_path / "0.parquet")
    trace = accepted_or_refused(read_trace, tmp_path)
    if trace is not None:
        accepted_or_refused(recorded, trace)


@pytest.mark.parametrize("name", sorted(Shedder.registered()))
@given(data=st.data(), records=st.integers(0, 12))
def test_any_clock_leaves_the_shedder_usable(name, data, records):
    def drawn():
        return np.array(data.draw(st.lists(NUMBERS, min_size=records, max_size=records)))

    kind = Shedder.registered()[name]
    wanted = {"target": average("2 s"), "ratio": 0.5, "costs": Exact(np.arange(5), np.ones(5))}
    shedder = kind(**{k: v for k, v in wanted.items() if k in kind.parameters()})
    keys = np.arange(records, dtype=np.int64)
    with np.errstate(all="ignore"):
        accepted_or_refused(shedder.admit, keys, drawn(), drawn())
        assert shedder.admit(np.arange(5), np.zeros(5), np.ones(5)).shape == (5,)


@pytest.mark.parametrize("name", sorted(Scaler.registered()))
@given(data=st.data(), periods=st.integers(1, 6))
def test_any_history_gets_a_plan_or_a_refusal(name, data, periods):
    kind = Scaler.registered()[name]
    wanted = {"degrees": {"op": 2}, "max_degree": 9}
    scaler = kind(**{k: v for k, v in wanted.items() if k in kind.parameters()})
    numbers = st.lists(NUMBERS, min_size=periods, max_size=periods)

    def plan():
        fields = ("received", "processed", "emitted", "cost_ms")
        drawn = {one: np.array(data.draw(numbers)) for one in fields}
        observed = Observed(**drawn, pending=data.draw(NUMBERS), degree=2)
        return scaler.plan(Topology.linear("op"), History(1_000.0, {"op": observed}))

    with np.errstate(all="ignore"):
        found = accepted_or_refused(plan)
    if found is not None:
        assert all(1 <= degree <= 9 for degree in found.degrees.values())


@pytest.mark.parametrize("name", sorted(Placer.registered()))
@given(data=st.data(), groups=st.integers(0, 8), workers=st.integers(0, 4))
def test_any_cluster_gets_a_placement_or_a_refusal(name, data, groups, workers):
    loads = data.draw(st.lists(NUMBERS, min_size=groups, max_size=groups))
    where = data.draw(st.lists(st.integers(-1, workers), min_size=groups, max_size=groups))
    speeds = data.draw(st.lists(NUMBERS | st.just(1.0), min_size=workers, max_size=workers))
    ends = st.integers(-1, groups)
    edges = data.draw(st.lists(st.tuples(ends, ends, NUMBERS), max_size=6))

    def place():
        cluster = Cluster(
            load=np.array(loads),
            placement=np.array(where, dtype=np.int64),
            capacity=np.array(speeds),
            traffic=Traffic(*map(np.array, zip(*edges, strict=True))) if edges else Traffic(),
        )
        return Placer.named(name).plan(cluster)

    with np.errstate(all="ignore"):
        found = accepted_or_refused(place)
    if found is not None:
        assert ((found.placement >= 0) & (found.placement < workers)).all()
