"""Lines of costs by size: they age, and take room in messages, with the entries of the table."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.policies.costs import BySize, SpaceSaving, lines
from penstock.policies.costs.lines import LARGEST, LINE
from penstock.policies.costs.outliers import believed
from penstock.policies.kernels import kernel

NUMBER = st.floats(0.5, 100.0)
RECORDS = st.lists(st.tuples(NUMBER, NUMBER, NUMBER), max_size=20)


def learnt(records):
    model = BySize(8, seed=1, spread=True)
    keys, costs_ms, sizes = zip(*records, strict=True)
    model.update(keys, costs_ms, sizes)
    return model


def test_decay_ages_lines_with_their_entries():
    model = learnt([(1, 5.0, 2.0), (1, 7.0, 4.0), (2, 1.0, 1.0)])
    before = model.lines.copy()
    model.decay(0.25)
    for name in ("records", "sizes", "weight", "sxx", "sxy", "syy"):
        np.testing.assert_allclose(model.lines[name], 0.25 * before[name], rtol=1e-6)


def test_a_message_has_a_line_for_each_entry():
    model = learnt([(key, 1.0, 1.0) for key in range(3)])
    plain = SpaceSaving(8, seed=1, spread=True)
    plain.update([0, 1, 2], [1.0, 1.0, 1.0])
    assert model.message_bytes == plain.message_bytes + 3 * model.lines.itemsize


def line_of(records):
    """A line of (size, ms, weight) in double precision."""
    found = np.zeros(1, dtype=[(name, np.float64) for name in LINE.names])
    for size, ms, weight in records:
        add(found, size, ms, weight)
    return found


@kernel
def add(line, size, ms, weight):
    lines.add(line[0], size, ms, weight)


@kernel
def join(line, other, scale):
    lines.join(line[0], other[0], scale)


@settings(deadline=None, max_examples=60)
@given(RECORDS, RECORDS, st.sampled_from([0.5, 1.0, 3.0]))
def test_joined_lines_are_the_line_of_all_records(first, second, scale):
    joined = line_of(first)
    join(joined, line_of(second), scale)
    everything = line_of([*first, *((size, ms * scale, weight) for size, ms, weight in second)])
    for name in LINE.names:
        assert joined[name][0] == pytest.approx(everything[name][0], rel=1e-9, abs=1e-6), name


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_sizes_differ_by_more_than_a_thousandth_of_any_mean(size):
    weight = 7.0
    assert lines.differs(weight * (0.0011 * size) ** 2, weight, size)
    assert not lines.differs(weight * (0.0009 * size) ** 2, weight, size)


def test_the_largest_size_is_the_last_one_that_counts():
    assert lines.is_size(LARGEST)
    assert not lines.is_size(LARGEST * (1 + 1e-15))
    assert np.finfo(np.float32).max > LARGEST**2 * 1e8  # squares of many such sizes fit


@pytest.mark.parametrize(("sized", "costs"), [(1e-3, 1.0), (1e3, 1.0), (1.0, 1e-3), (1.0, 1e3)])
def test_estimates_do_not_depend_on_the_units_of_sizes_and_costs(sized, costs):
    rng = np.random.default_rng(4)
    keys = rng.integers(0, 12, size=400)
    sizes = rng.uniform(1.0, 9.0, size=400)
    slopes = rng.uniform(0.5, 2.0, size=12)[keys]
    costs_ms = (2.0 + slopes * sizes) * rng.lognormal(0.0, 0.2, size=400)
    plain, scaled = BySize(16, spread=True), BySize(16, spread=True)
    plain.update(keys, costs_ms, sizes)
    scaled.update(keys, costs * costs_ms, sized * sizes)
    expected = plain.estimate(keys, sizes)
    assert expected.std() > 1.0
    np.testing.assert_allclose(scaled.estimate(keys, sized * sizes), costs * expected, rtol=1e-3)
    np.testing.assert_allclose(
        scaled.spread_ms(keys, sized * sizes), costs * plain.spread_ms(keys, sizes), rtol=1e-3
    )


def test_noisy_costs_are_believed_farther_from_their_line():
    assert believed(8.0, 4.0) == 1.0
    assert believed(18.0, 4.0) == pytest.approx(0.5)
    assert believed(0.01, 0.0) == pytest.approx(50.0)
