"""The oracle of divisions: sizes, durations by hand, and which division it prefers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.experiments.division_oracle import best_division, duration_ms, falling


@given(st.integers(1, 60), st.floats(0.0, 1.0), st.integers(0, 2_000))
def test_sizes_fall_and_add_up(tasks, last, records):
    sizes = falling(tasks, last, records)
    assert sizes.size == tasks
    assert sizes.sum() == records
    assert (np.diff(sizes) <= 1).all()  # numbers of records are rounded
    assert (sizes >= 0).all()


def test_a_duration_by_hand():
    # Task 0 on slot 0 until 5 + 6, task 1 on the slow slot until 5 + 2 * 3, task 2 after task 0.
    costs_ms = np.array([1.0, 2.0, 3.0, 3.0, 4.0])
    found = duration_ms(np.array([3, 1, 1]), costs_ms, np.array([1.0, 2.0]), task_ms=5.0)
    assert found == 11 + 5 + 4


def test_equal_costs_need_few_tasks_and_long_records_many():
    slots = [np.ones(4)] * 40
    equal = best_division([np.full(400, 10.0)] * 40, slots, task_ms=15.0)
    assert equal.size == 8
    rng = np.random.default_rng(0)
    uneven = [rng.pareto(1.3, 400) * 10 for _ in range(40)]
    assert best_division(uneven, slots, task_ms=1.0).size > 16


@pytest.mark.parametrize("task_ms", [0.0, 15.0])
def test_no_equal_division_is_better(task_ms):
    rng = np.random.default_rng(1)
    batches_ms = [rng.lognormal(2, 1.5, 200) for _ in range(20)]
    slots = [rng.permutation([1.0, 1.0, 1.0, 2.0]) for _ in range(20)]

    def mean(sizes):
        pairs = zip(batches_ms, slots, strict=True)
        return np.mean([duration_ms(sizes, b, s, task_ms=task_ms) / b.sum() for b, s in pairs])

    best = mean(best_division(batches_ms, slots, task_ms=task_ms))
    assert all(best <= mean(falling(4 * n, 1.0, 200)) for n in (2, 4, 8))
