"""Samples of records: bounded, even, repeatable; and the form of a trace."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.control.reports import ExecutionReport, RouterReport, TaskId, pack, unpack
from penstock.control.samples import Sampler, unpack_sample
from penstock.control.stats import FinishedBatch
from penstock.control.trace import METADATA, numbers_of, table_of
from penstock.errors import PenstockError


@given(st.lists(st.integers(0, 300), max_size=12), st.integers(1, 50), st.integers(0, 5))
def test_a_sample_is_bounded_and_its_weights_add_up(parts, most, seed):
    sampler, total = Sampler(most, seed), sum(parts)
    start = 0
    for count in parts:
        keys = np.arange(start, start + count)
        sampler.add(keys, costs_ms=keys.astype(float))
        start += count
    if not total:
        assert sampler.pack() == b""
        return
    found = unpack_sample(sampler.pack())
    assert found.keys.size == min(total, most)
    assert found.keys.size * found.weight == pytest.approx(total)
    assert (np.diff(found.keys) > 0).all()
    assert np.array_equal(found.costs_ms, found.keys.astype(float))
    assert np.isnan(found.sizes).all()
    assert np.isnan(found.arrival_ms).all()


def test_a_sample_does_not_depend_on_how_records_come_in_parts():
    keys = np.arange(5000)
    whole, parts = Sampler(100, 3), Sampler(100, 3)
    whole.add(keys)
    for part in np.array_split(keys, 37):
        parts.add(part)
    assert np.array_equal(unpack_sample(whole.pack()).keys, unpack_sample(parts.pack()).keys)


def test_a_sample_is_even():
    sampler = Sampler(2000)
    sampler.add(np.arange(20_000) % 10)
    counts = np.bincount(unpack_sample(sampler.pack()).keys)
    assert 150 < counts.min() <= counts.max() < 250


def test_foreign_bytes_are_refused():
    with pytest.raises(PenstockError, match="a sample cannot be read"):
        unpack_sample(b"something else")


def sample_of(count, **more):
    sampler = Sampler(10)
    sampler.add(np.arange(count), **more)
    return sampler.pack()


def reports():
    costs = np.array([1.0, 2.0, 3.0])
    shed = np.ones(2, dtype=np.bool_)
    lost = sample_of(2, shed=shed, arrival_ms=np.array([5.0, 6.0]))
    return [
        RouterReport(TaskId("op", "q", "4", 0), 5, 1.0, 0.0, sample=lost),
        ExecutionReport(
            TaskId("op", "q", "4", 1), 3, 3, 6.0, "b", b"costs", started_s=1.0, ended_s=2.0,
            sample=sample_of(3, costs_ms=costs), servers=2,
        ),
        ExecutionReport(
            TaskId("op", "q", "4", 2), 3, 3, 6.0, "b", b"", started_s=1.5, ended_s=2.5,
            sample=sample_of(3, costs_ms=costs),
        ),
    ]  # fmt: skip


def test_reports_carry_samples_beside_costs():
    for report in reports():
        assert unpack(pack(report)) == report


def test_the_table_of_a_batch_has_records_and_numbers():
    finished = FinishedBatch(
        batch="4", received=8, shed=2, processed=6, waiting_ms=float("nan"), duration_ms=1500.0,
        operator="op", query="q", query_name="sales", state="RUN", active=2, imbalance=0.0,
        target_ms=None, warnings=(), finished_s=10.0,
    )  # fmt: skip
    numbers = numbers_of(finished, reports(), grouping="factoring", in_front=False)
    assert numbers.executors == {"b": 2}
    assert (numbers.began_ms, numbers.number, numbers.servers) == (8500.0, 4, 2)
    table = table_of(numbers, reports())
    assert table["shed"].to_pylist() == [True, True] + 6 * [False]
    assert table["task"].to_pylist() == [0, 0, 1, 1, 1, 2, 2, 2]
    assert table["executor"].to_pylist() == ["", ""] + 6 * ["b"]
    assert table["weight"].to_pylist() == [1.0] * 8
    assert json.loads(table.schema.metadata[METADATA])["query"] == "sales"
