"""Streams: Zipf keys, costs by key, arrivals, and the stand-in for the application."""

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.sim import Application, HeavyTailed, Stream, Synthetic, zipf_keys
from penstock.sim.workloads import zipf_exponent

# Stream.


def test_all_arrive_at_once_unless_told_otherwise():
    stream = Stream.of([3, 1], [2.0, 5.0])
    assert stream.arrivals_ms.tolist() == [0.0, 0.0]
    assert len(stream) == 2
    assert stream.every(2.5).arrivals_ms.tolist() == [0.0, 2.5]
    assert stream.arriving([1, 1]).arrivals_ms.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("ratio", [0.95, 1.0, 1.15])
@pytest.mark.parametrize("k", [1, 5])
def test_provisioning_is_time_to_arrive_over_time_to_work(k, ratio):
    stream = Synthetic(records=2_000).stream(0).provisioned(k, ratio)
    gaps = np.diff(stream.arrivals_ms)
    np.testing.assert_allclose(gaps, ratio * stream.costs_ms.mean() / k)
    assert gaps.sum() * 2_000 / 1_999 * k == pytest.approx(ratio * stream.costs_ms.sum())


def test_exact_costs_know_every_key():
    stream = Synthetic(records=2_000).stream(0)
    np.testing.assert_array_equal(stream.exact_costs().estimate(stream.keys), stream.costs_ms)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda s: s.every(-1), "interval_ms must be >= 0; got -1"),
        (lambda s: s.provisioned(0), "instances must be >= 1; got 0"),
        (lambda s: s.provisioned(2, 0), "ratio must be > 0; got 0"),
        (lambda s: s.arriving([0.0]), "arrivals_ms must have shape (3,); got (1,)"),
        (
            lambda s: s.arriving([0.0, 2.0, 1.0]),
            "arrivals_ms must not decrease; they do at record 2",
        ),
        (lambda s: s.arriving([0.0, 1.0, np.nan]), "arrivals_ms must be finite; got NaN"),
        (lambda s: Stream.of([1], [-1.0]), "costs_ms must be finite and >= 0; got -1.0 at 0"),
        (lambda s: Stream.of([1], [1.0, 2.0]), "costs_ms must have shape (1,); got (2,)"),
        (lambda s: Stream.of([0.5], [1.0]), "keys must be whole numbers; got dtype float64"),
    ],
)
def test_bad_streams(make, message):
    with pytest.raises(PenstockError) as caught:
        make(Stream.of([1, 2, 3], [1.0, 2.0, 3.0]))
    assert message in str(caught.value)


# Synthetic.


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_keys_follow_zipf(exponent):
    records, distinct = 200_000, 50
    keys = zipf_keys(np.random.default_rng(1), records, distinct, exponent=exponent)
    assert keys.dtype == np.int64
    weights = np.arange(1, distinct + 1) ** -exponent
    shares = weights / weights.sum()
    found = np.bincount(keys, minlength=distinct) / records
    error = np.sqrt(shares * (1 - shares) / records)
    assert found.size == distinct
    assert (np.abs(found - shares) < 5 * error).all()


def costs_by_key(workload, seed=3):
    stream = workload.stream(seed)
    keys, first = np.unique(stream.keys, return_index=True)
    np.testing.assert_array_equal(keys, np.arange(workload.distinct))
    return stream.costs_ms[first]


def test_every_cost_is_given_to_the_same_number_of_keys():
    workload = Synthetic(records=20_000, distinct=512, exponent=0)
    costs, others = costs_by_key(workload, seed=1), costs_by_key(workload, seed=2)
    values, times = np.unique(costs, return_counts=True)
    assert values.tolist() == list(range(1, 65))
    assert set(times) == {512 // 64}
    assert (costs != others).mean() > 0.9  # which key costs what is drawn by the seed, too


def test_costs_depend_on_the_key_alone():
    stream = Synthetic(records=5_000).stream(0)
    for key in range(10):
        assert np.unique(stream.costs_ms[stream.keys == key]).size == 1


def test_geometric_steps():
    workload = Synthetic(
        records=5_000, distinct=70, exponent=0, cost_values=7, max_cost_ms=64.0, steps="geometric"
    )
    values, times = np.unique(costs_by_key(workload).round(9), return_counts=True)
    assert values.tolist() == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
    assert set(times) == {10}


def test_two_costs_and_one():
    two = Synthetic(records=5_000, distinct=10, exponent=0, cost_values=2)
    assert np.unique(costs_by_key(two), return_counts=True)[1].tolist() == [5, 5]
    one = Synthetic(records=5_000, distinct=10, cost_values=1, min_cost_ms=3.0, max_cost_ms=3.0)
    assert set(one.stream(0).costs_ms) == {3.0}


@pytest.mark.parametrize("workload", [Synthetic(records=500), Application(records=500)])
def test_the_seed_decides(workload):
    first, again, other = (workload.stream(seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.keys, again.keys)
    np.testing.assert_array_equal(first.costs_ms, again.costs_ms)
    assert (first.keys != other.keys).any()
    with pytest.raises(PenstockError, match="seed must be >= 0; got -1"):
        workload.stream(-1)


def test_streams_are_the_same_on_every_machine():
    stream = Synthetic(records=8).stream(2015)
    assert stream.keys.tolist() == [49, 3, 535, 3061, 1, 1, 168, 1231]


# Application.


def test_keys_that_tell_nothing_change_no_cost():
    keyed = HeavyTailed(spread=0.0, records=5_000).stream(3)
    keyless = HeavyTailed(spread=0.0, records=5_000, keyed=False).stream(3)
    np.testing.assert_array_equal(keyless.costs_ms, keyed.costs_ms)
    np.testing.assert_array_equal(np.sort(keyless.keys), np.sort(keyed.keys))
    frequent = keyless.costs_ms[keyless.keys == 0]
    assert np.unique(keyed.costs_ms[keyed.keys == 0]).size == 1
    assert frequent.mean() == pytest.approx(keyed.costs_ms.mean(), rel=0.3)


def test_share_of_the_top_entity():
    workload = Application()
    keys = workload.stream(0).keys
    assert keys.size == 500_000
    found = np.bincount(keys).max() / keys.size
    assert found == pytest.approx(0.065, abs=5 * np.sqrt(0.065 / keys.size))
    assert np.unique(keys).size > 0.5 * 35_000


def test_mean_cost_and_share_of_cheap_records():
    # The class of the few top entities moves both: average over streams.
    streams = [Application(records=20_000).stream(seed) for seed in range(60)]
    means = np.array([s.costs_ms.mean() for s in streams])
    cheap = np.array([(s.costs_ms == 1).mean() for s in streams])
    assert set(np.concatenate([s.costs_ms for s in streams])) == {1.0, 5.0, 25.0}
    assert abs(means.mean() - 9.7) < 4 * means.std() / np.sqrt(60)
    assert abs(cheap.mean() - 0.36) < 4 * cheap.std() / np.sqrt(60)
    assert means.std() < 2


def test_exponent_of_a_share():
    for share, distinct in ((0.065, 35_000), (0.5, 10), (0.2, 100)):
        weights = np.arange(1, distinct + 1) ** -zipf_exponent(share, distinct)
        assert 1 / weights.sum() == pytest.approx(share)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Synthetic(records=0), "records must be >= 1; got 0"),
        (lambda: Synthetic(distinct=0), "distinct must be >= 1; got 0"),
        (lambda: Synthetic(exponent=-1), "exponent must be >= 0; got -1"),
        (lambda: Synthetic(cost_values=0), "cost_values must be >= 1; got 0"),
        (lambda: Synthetic(distinct=10, cost_values=11), "cost_values must be <= 10; got 11"),
        (lambda: Synthetic(min_cost_ms=0), "min_cost_ms must be > 0; got 0"),
        (lambda: Synthetic(min_cost_ms=9, max_cost_ms=5), "max_cost_ms must be >= min_cost_ms = 9"),
        (lambda: Synthetic(steps="geometrc"), "did you mean 'geometric'?"),
        (lambda: Application(records=0), "records must be >= 1; got 0"),
        (lambda: Application(distinct=1), "distinct must be >= 2; got 1"),
        (lambda: Application(top_share=1), "top_share must be in"),
        (lambda: Application(distinct=10, top_share=0.05), "top_share must be in (0.1, 1)"),
        (lambda: Application(shares=(0.5, 0.5)), "shares must be one per cost and sum to 1"),
        (lambda: Application(shares=(0.5, 0.4, 0.2)), "shares must be one per cost and sum to 1"),
        (lambda: Application(shares=(1.5, -0.5, 0.0)), "shares must be"),
        (lambda: Application(costs_ms=(25.0, 5.0, -1.0)), "costs_ms must be"),
    ],
)
def test_bad_workloads(make, message):
    with pytest.raises(PenstockError) as caught:
        make()
    assert message in str(caught.value)
