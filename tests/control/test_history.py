"""An hour of numbers in bounded memory."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.control.history import HOUR_S, History

NUMBERS = st.one_of(st.just(math.nan), st.integers(0, 10_000).map(float))


@given(st.lists(NUMBERS, max_size=80), st.integers(1, 30), st.integers(1, 40))
def test_peaks_and_the_newest_row_stay(numbers, rows, most):
    history = History(("n",), rows)
    for second, number in enumerate(numbers):
        history.add(1e9 + second, [number])
    kept = numbers[-rows:]
    assert len(history) == len(kept)
    found = history.thinned(0.0, most)
    assert len(found["n"]) == len(found["time_s"]) <= most
    assert found["time_s"] == sorted(found["time_s"])
    if kept:
        assert found["time_s"][-1] == 1e9 + len(numbers) - 1
        known = [one for one in found["n"] if one is not None]
        assert (
            max(known, default=math.nan)
            == max((one for one in kept if not math.isnan(one)), default=math.nan)
            or not known
        )
        assert history.last() == {"n": None if math.isnan(kept[-1]) else kept[-1]}
    else:
        assert history.last() == {"n": None}


def test_rows_before_a_time_are_left_out():
    history = History(("n",))
    for second in range(10):
        history.add(100.0 + second, [float(second)])
    assert history.thinned(107.0, 100) == {"time_s": [107.0, 108.0, 109.0], "n": [7.0, 8.0, 9.0]}
    assert history.thinned(200.0, 100) == {"time_s": [], "n": []}


def test_memory_does_not_grow():
    history = History(("a", "b"))
    before = history.memory_bytes
    for second in range(2 * HOUR_S):
        history.add(float(second), [1.0, 2.0])
    assert (history.memory_bytes, len(history)) == (before, HOUR_S)
    assert before == HOUR_S * 3 * np.dtype(np.float32).itemsize
