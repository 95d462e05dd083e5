"""Functions of whole batches on Spark: exact counts, and the source of the costs of keys."""

import pandas as pd
import pyarrow as pa
import pytest
from flows import NUMBERED, bag, numbered

import penstock

pytestmark = pytest.mark.spark


def unchanged(kind):
    """A function that returns its batch; Spark's workers cannot import this module."""

    def func(batch):
        return batch

    func.__annotations__ = {"batch": kind}
    return func


@pytest.mark.parametrize("kind", [pd.DataFrame, pa.RecordBatch])
def test_stats_show_where_costs_of_keys_come_from(spark, kind):
    op = penstock.balance(unchanged(kind), key="entity", schema=NUMBERED, instances=2)
    frame = numbered(spark, 200)
    for _ in range(2):
        assert bag(frame.transform(op).collect()) == bag(frame.collect())
    assert op.stats().processed == 400
    assert "whole batches" in op.stats().cost_source or "equal shares" in op.stats().cost_source
