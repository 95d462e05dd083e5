"""Space-Saving: a plain twin, the published guarantees, and the table's inner order."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import PlainTable

from penstock.errors import PenstockError
from penstock.policies.costs import CountMin, SpaceSaving
from penstock.policies.hashing import HashFamily

KEYS = st.integers(-3, 12) | st.integers(-(2**63), 2**63 - 1)
COSTS = st.floats(0, 1e5, width=32)
RECORDS = st.lists(st.tuples(KEYS, COSTS), max_size=80)


def learn(model, records):
    model.update(
        np.array([key for key, _ in records], dtype=np.int64), [cost for _, cost in records]
    )


def counts_of(model):
    return dict(zip(model.keys().tolist(), model.counts().tolist(), strict=True))


def assert_in_order(model):
    """Every key is found from its home slot, and the heap of a full table is one."""
    entries, index, *_ = model.table
    keys = model.keys()
    assert np.unique(keys).size == len(model)
    assert np.count_nonzero(index) == len(model)
    homes = HashFamily(1, index.size, model.seed).hash(keys)[0]
    for entry, home in enumerate(homes.tolist()):
        slot = home
        while index[slot] != entry + 1:
            assert index[slot] != 0, f"entry {entry} is behind an empty slot"
            slot = (slot + 1) % index.size
    if len(model) == model.capacity:
        heap, counts = entries["heap"], entries["count"]
        assert sorted(heap.tolist()) == list(range(model.capacity))
        np.testing.assert_array_equal(entries["place"][heap], np.arange(model.capacity))
        parents = (np.arange(1, model.capacity) - 1) // 2
        assert (counts[heap[parents]] <= counts[heap[1:]]).all()


@settings(deadline=None, max_examples=150)
@given(RECORDS, st.integers(1, 8), st.integers(0, 5))
def test_is_the_plain_twin(records, capacity, seed):
    # It is not defined which of several keys with the smallest count is evicted. The twin evicts
    # the same key as the model, and makes sure that its count was the smallest.
    model, twin = SpaceSaving(capacity, seed), PlainTable(capacity)
    for key, cost in records:
        before = set(model.keys().tolist())
        learn(model, [(key, cost)])
        gone = before - set(model.keys().tolist())
        assert len(gone) <= 1
        twin.update(key, cost, *gone)
    assert counts_of(model) == {key: entry[0] for key, entry in twin.entries.items()}
    assert model.records == len(records)
    known = list(twin.entries)
    np.testing.assert_allclose(
        model.estimate(np.array([*known, 999], dtype=np.int64)),
        [twin.estimate(key) for key in [*known, 999]],
        rtol=1e-9,
    )


@settings(deadline=None, max_examples=150)
@given(RECORDS.filter(bool), st.integers(1, 8), st.integers(0, 5))
def test_published_guarantees(records, capacity, seed):
    model = SpaceSaving(capacity, seed)
    learn(model, records)
    true = Counter(key for key, _ in records)
    error = len(records) / capacity
    counts = counts_of(model)
    assert sum(counts.values()) == len(records)
    assert all(true[key] <= count <= true[key] + error for key, count in counts.items())
    assert {key for key, times in true.items() if times > error} <= counts.keys()


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), RECORDS),
        st.tuples(st.just("merge"), RECORDS),
        st.tuples(st.just("decay"), st.floats(0.01, 1)),
    ),
    max_size=6,
)


@settings(deadline=None, max_examples=150)
@given(OPERATIONS, st.integers(1, 8), st.integers(1, 8))
def test_the_table_stays_in_order(operations, capacity, other_capacity):
    model = SpaceSaving(capacity, seed=3)
    for operation, argument in operations:
        if operation == "update":
            learn(model, argument)
        elif operation == "merge":
            other = SpaceSaving(other_capacity, seed=4)
            learn(other, argument)
            model.merge(other)
        else:
            model.decay(argument)
        assert_in_order(model)


def test_the_largest_table():
    model = SpaceSaving(capacity=65_535)
    keys = np.random.default_rng(1).integers(-(2**63), 2**63, size=70_000, dtype=np.int64)
    model.update(keys, np.ones(keys.size))
    assert len(model) == 65_535
    assert_in_order(model)
    assert model.memory_bytes == pytest.approx(28 * 65_535, abs=100)


def test_sequential_keys_that_come_and_go():
    model = SpaceSaving(capacity=50)
    for start in range(0, 5000, 10):
        model.update(np.arange(start, start + 60), np.ones(60))
        assert_in_order(model)


def test_frequent_keys_are_exact():
    rng = np.random.default_rng(2)
    keys = np.minimum(rng.zipf(1.5, size=20_000), 5000)
    costs = 1.0 + keys % 64
    model = SpaceSaving(capacity=100)
    model.update(keys, costs)
    np.testing.assert_allclose(model.estimate([1, 2, 3]), [2.0, 3.0, 4.0], rtol=1e-12)


def test_rest_is_what_met_a_table_without_its_key():
    model = SpaceSaving(capacity=2)
    assert model.estimate([5]).tolist() == [0.0]
    model.update([1, 1, 2, 2], [10.0, 99.0, 20.0, 99.0])
    assert model.estimate([5]).tolist() == [15.0]  # not full: first records of 1 and 2
    model.update([3, 4], [1.0, 9.0])
    assert model.estimate([5]).tolist() == [10.0]  # (10 + 20 + 1 + 9) / 4


def test_the_newcomer_inherits_the_smallest_count():
    model = SpaceSaving(capacity=2)
    model.update([1, 1, 1, 2, 2, 3], [1.0] * 6)
    assert counts_of(model) == {1: 3.0, 3: 3.0}


@settings(deadline=None, max_examples=100)
@given(RECORDS, RECORDS, st.sampled_from([0.5, 1.0, 1.7]))
def test_merge_of_tables_with_room_is_the_plain_twin(first, second, scale):
    one, other, twin, other_twin = SpaceSaving(200), SpaceSaving(200), PlainTable(), PlainTable()
    for model, plain, records in ((one, twin, first), (other, other_twin, second)):
        learn(model, records)
        for key, cost in records:
            plain.update(key, cost)
    before = other.snapshot()
    one.merge(other, scale)
    twin.merge(other_twin, scale)
    assert other.snapshot() == before
    assert one.records == len(first) + len(second)
    true = Counter(key for key, _ in first + second)
    assert counts_of(one) == true
    found = one.estimate(one.keys())
    np.testing.assert_allclose(found, [twin.estimate(k) for k in one.keys().tolist()], rtol=1e-9)


def test_merge_of_keys_that_cost_the_same_is_update_with_both():
    rng = np.random.default_rng(5)
    keys = rng.integers(0, 50, size=300)
    together, one, other = (SpaceSaving(capacity=50) for _ in range(3))
    together.update(keys, 1.0 + keys)
    one.update(keys[:150], 1.0 + keys[:150])
    other.update(keys[150:], 1.0 + keys[150:])
    one.merge(other)
    assert counts_of(one) == counts_of(together)
    np.testing.assert_array_equal(one.estimate(range(50)), together.estimate(range(50)))


@settings(deadline=None, max_examples=50)
@given(RECORDS, RECORDS, st.integers(1, 6))
def test_merge_of_full_tables_counts_every_record_once(first, second, capacity):
    one, other = SpaceSaving(capacity), SpaceSaving(capacity)
    learn(one, first)
    learn(other, second)
    one.merge(other)
    assert one.records == len(first) + len(second)


def test_merge_with_a_scale():
    one, other = SpaceSaving(capacity=4), SpaceSaving(capacity=2)
    other.update([1, 1, 2, 3], [10.0, 10.0, 20.0, 40.0])
    one.merge(other, scale=0.5)
    assert one.estimate([1, 3]).tolist() == [5.0, 20.0]
    assert one.estimate([2]).tolist() == [12.5]  # evicted by the other: the mean of 1 and 3
    with pytest.raises(PenstockError, match="scale must be > 0; got 0"):
        one.merge(other, scale=0)


def test_decay_keeps_estimates_and_weighs_new_records_more():
    model, faded = SpaceSaving(capacity=4), SpaceSaving(capacity=4)
    for one in (model, faded):
        one.update([1] * 8 + [2, 3], [10.0] * 8 + [40.0, 90.0])
    faded.decay(0.25)
    np.testing.assert_array_equal(model.estimate(range(5)), faded.estimate(range(5)))
    assert counts_of(faded) == {1: 2.0, 2: 0.25, 3: 0.25}
    assert faded.records == 2.5
    for one in (model, faded):
        one.update([1], [20.0])
    assert 10 < model.estimate([1])[0] < faded.estimate([1])[0]


def test_a_key_is_believed_as_far_as_keys_explain_costs():
    rng = np.random.default_rng(4)
    keys = rng.integers(0, 100, size=5000)
    noise = rng.exponential(10.0, size=keys.size)
    explained, both, noisy = (SpaceSaving(capacity=150) for _ in range(3))
    explained.update(keys, 1.0 + keys)
    both.update(keys, keys + noise)
    noisy.update(keys, noise)
    for one in (explained, both, noisy):
        one.update([200], [30.0])
    assert explained.estimate([200])[0] == pytest.approx(30)
    assert 31 < both.estimate([200])[0] < 40
    assert noisy.estimate([200])[0] < 15
    np.testing.assert_allclose(noisy.estimate(range(100)), 10, atol=3)


def test_estimates_survive_any_number_of_decays():
    model = SpaceSaving(capacity=4)
    model.update([1, 2], [10.0, 20.0])
    for _ in range(2000):
        model.decay(0.5)
    np.testing.assert_allclose(model.estimate([1, 2, 3]), [10.0, 20.0, 15.0], rtol=1e-6)


def test_the_seed_changes_no_estimate():
    keys = np.random.default_rng(3).integers(0, 50, size=500)
    estimates = []
    for seed in range(3):
        model = SpaceSaving(capacity=10, seed=seed)
        model.update(keys, 1.0 + keys)
        estimates.append(model.estimate(np.arange(60)).tolist())
    assert estimates[0] == estimates[1] == estimates[2]


def test_snapshots_are_of_one_capacity():
    model = SpaceSaving(capacity=4)
    model.update([1, 2, 3, 4, 5], [1.0] * 5)
    with pytest.raises(PenstockError, match="taken with other parameters"):
        SpaceSaving(capacity=5).restore(model.snapshot())
    restored = SpaceSaving(capacity=4)
    restored.restore(model.snapshot())
    assert_in_order(restored)
    assert counts_of(restored) == counts_of(model)


def test_messages_carry_entries_in_use_only():
    model = SpaceSaving(capacity=240)
    empty = model.message_bytes
    model.update([1, 2, 2], [1.0] * 3)
    assert model.message_bytes == empty + 2 * 16


@pytest.mark.parametrize(
    "capacity, message",
    [(0, "capacity must be >= 1; got 0"), (65_536, "capacity must be <= 65535; got 65536")],
)
def test_bad_capacity(capacity, message):
    with pytest.raises(PenstockError) as caught:
        SpaceSaving(capacity)
    assert str(caught.value) == message


def test_merge_refuses_other_models():
    with pytest.raises(PenstockError):
        SpaceSaving().merge(CountMin())
