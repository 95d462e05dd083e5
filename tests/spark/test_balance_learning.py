"""Balanced operators learn what keys cost and route by it, on a real local Spark."""

import time

import numpy as np
import pyarrow as pa
import pytest
from flows import NUMBERED, configured, hash_of, numbered
from pyspark import TaskContext
from pyspark.sql import functions as sf

import penstock
from penstock.policies.grouping import Proactive

pytestmark = pytest.mark.spark


def learnt(op, hashes):
    """What the operator's policy expects records of these key hashes to cost."""
    controller = op._plane.controllers(op.identity)[-1]
    grouping = op._make_grouping(2)
    grouping.restore(controller.snapshot("asked by a test").data)
    return grouping.expected_ms(hashes)


def test_it_learns_what_keys_cost_and_expects_it(spark):
    def sleepy(record):
        time.sleep(0.01 if record["entity"] == "e0" else 0)
        return record

    op = penstock.balance(sleepy, key="entity", schema=NUMBERED, instances=2)
    frame = numbered(spark, 120).transform(op)
    frame.collect()
    assert op.stats().state == "RUN"
    dear, *cheap = learnt(op, hash_of(spark, *(f"e{i}" for i in range(7))))
    assert dear > 9
    # A busy machine may interrupt records of some keys, but hardly those of all.
    assert dear > 3 * min(cheap)
    before = op.stats().instances
    frame.collect()
    after = op.stats().instances
    # The same records are expected to cost what they cost the first time, however busy the machine.
    more_ms = sum(now.expected_ms - was.expected_ms for was, now in zip(before, after, strict=True))
    assert more_ms == pytest.approx(sum(was.busy_ms for was in before), rel=0.25)
    assert more_ms >= 9 * 120 / 7


def test_the_cost_of_a_batch_is_shared_equally(spark):
    def whole(batch: pa.RecordBatch) -> pa.RecordBatch:
        time.sleep(0.05)
        return batch

    op = penstock.balance(whole, key="entity", schema=NUMBERED, instances=1)
    numbered(spark, 90, partitions=1).transform(op).collect()
    costs_ms = learnt(op, hash_of(spark, *(f"e{i}" for i in range(7))))
    np.testing.assert_allclose(costs_ms, op.stats().instances[0].busy_ms / 90)
    assert op.stats().instances[0].busy_ms >= 50


@pytest.mark.parametrize("at_once", [10_000, 50])
def test_records_go_where_the_policy_says(spark, at_once):
    def sleepy(record):
        time.sleep(0.002 * (record["n"] % 4))
        return {**record, "instance": TaskContext.get().partitionId()}

    schema = "kind int, n int, hash long, router int, instance int"
    grouping = Proactive(3, capacity=64)
    op = penstock.balance(sleepy, key="kind", schema=schema, grouping=grouping)
    frame = spark.range(0, 300, 1, 3).selectExpr("int(id % 4) AS kind", "int(id) AS n")
    frame = frame.withColumns({"hash": sf.xxhash64("kind"), "router": sf.spark_partition_id()})
    with configured(spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": at_once}):
        frame.transform(op).collect()
        rows = sorted(frame.transform(op).collect(), key=lambda row: row.n)
    plans = [entry for entry in op.journal.entries() if entry["kind"] == "plan"]
    snapshot = op._plane.controllers(op.identity)[-1].snapshot(plans[-1]["batch"])
    for router in range(3):
        policy = grouping.clone()
        policy.restore(snapshot.data)
        policy.begin(router)
        mine = [row for row in rows if row.router == router]
        assert len(mine) == 100
        for at in range(0, len(mine), at_once):
            part = mine[at : at + at_once]
            told = policy.route_together(np.array([row.hash for row in part]))
            assert told.tolist() == [row.instance for row in part]
