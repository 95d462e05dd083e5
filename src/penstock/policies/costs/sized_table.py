"""Kernels of a table whose entries have lines: costs by key, and by the size of records."""

import numpy as np

from penstock.policies.costs import heavy_hitters
from penstock.policies.costs.heavy_hitters import LEAST_KNOWN, Table, slot_of
from penstock.policies.costs.line_fit import MEAN_SIZE, NOISE, USEFUL, Fit, line_at
from penstock.policies.costs.lines import Line, Lines, add, empty, is_size, join, weight_of
from penstock.policies.costs.outliers import LEAST, believed
from penstock.policies.costs.totals import SIZE
from penstock.policies.kernels import Float64, Int64, kernel

# A table, and the line of each of its entries.
Sized = tuple[Table, Lines]


@kernel
def find(table: Table, keys: Int64, out: Int64) -> None:
    """Find the entry of each key; -1 if it is not in the table."""
    entries, index, _, coefficients, _ = table
    for i in range(keys.size):
        out[i] = np.int64(index[slot_of(keys[i], entries, index, coefficients)]) - 1


@kernel
def _factor(line: Line, size: float, ms: float, fitted: Fit) -> float:
    """Return the factor by which the costs of more records of a key are believed."""
    if not fitted[USEFUL] or line.records < LEAST or ms <= 0:
        return 1.0
    expected_ms = line_at(line, size, fitted)
    return believed(ms / expected_ms, fitted[NOISE]) if expected_ms > 0 else 1.0


@kernel
def update(
    sized: Sized,
    keys: Int64,
    costs_ms: Float64,
    sizes: Float64,
    factors: Float64,
    typical: float,
    fitted: Fit,
) -> None:
    """Learn from records one by one: costs as they are, and believed costs by size.

    Args:
        sized: table and lines that learn.
        keys: keys of the records.
        costs_ms: costs of the records.
        sizes: sizes of the records.
        factors: factors by which the costs are believed.
        typical: typical size, for weights.
        fitted: fit of the lines so far.
    """
    table, lines = sized
    entries, index, totals, coefficients, squares = table
    for i in range(keys.size):
        known = index[slot_of(keys[i], entries, index, coefficients)]
        heavy_hitters.learn(
            keys[i], 1.0, costs_ms[i], 0.0, entries, index, totals, coefficients, squares
        )
        line = lines[index[slot_of(keys[i], entries, index, coefficients)] - 1]
        if not known:
            empty(line)
        if is_size(sizes[i]):
            believed_ms = costs_ms[i] * factors[i]
            believed_ms *= _factor(line, sizes[i], believed_ms, fitted)
            add(line, sizes[i], believed_ms, weight_of(sizes[i], typical))


@kernel
def merge(sized: Sized, other: Sized, scale: float, fitted: Fit) -> None:
    """Learn the entries and lines of another table, with its costs multiplied by `scale`.

    A mean cost that is far from the line of its key is winsorised, as single records are.
    """
    table, lines = sized
    entries, index, totals, coefficients, _ = table
    theirs, measured_lines = other
    measured, _, gained, _, _ = theirs
    for i in range(int(gained[SIZE])):
        one = measured[i]
        known = index[slot_of(one.key, entries, index, coefficients)]
        heavy_hitters.learn_entry(table, theirs, i, scale)
        line = lines[index[slot_of(one.key, entries, index, coefficients)] - 1]
        if not known:
            empty(line)
        more = measured_lines[i]
        join(line, more, scale * _factor(line, more.size, more.ms * scale, fitted))
    heavy_hitters.gain(totals, gained, scale)


@kernel
def relative(sized: Sized, other: Sized, fitted: Fit) -> tuple[float, float]:
    """Return the mean ratio of the other table's costs to those of the lines, and its weight.

    The weight is the number of records that would show as much if the lines were exact. Keys whose
    line is hardly known are left out. Both are 0 if no key is left.
    """
    table, lines = sized
    entries, index, _, coefficients, _ = table
    theirs, measured_lines = other
    measured, _, gained, _, _ = theirs
    total = 0.0
    weight = 0.0
    for i in range(int(gained[SIZE])):
        found = index[slot_of(measured[i].key, entries, index, coefficients)]
        seen = measured_lines[i]
        if found and seen.records > 0 and lines[found - 1].records >= LEAST_KNOWN:
            line = lines[found - 1]
            expected_ms = line_at(line, seen.size, fitted)
            if expected_ms > 0:
                own = seen.records / (1 + seen.records / line.records)
                total += own * seen.ms / expected_ms
                weight += own
    return (total / weight, weight) if weight > 0 else (0.0, 0.0)


@kernel
def expected_total(sized: Sized, other: Sized, fitted: Fit) -> float:
    """Return the cost that the lines expect of the records in another table's entries."""
    table, lines = sized
    entries, index, _, coefficients, _ = table
    theirs, measured_lines = other
    measured, _, gained, _, _ = theirs
    unknown = np.zeros(1, lines.dtype)
    total_ms = 0.0
    for i in range(int(gained[SIZE])):
        found = index[slot_of(measured[i].key, entries, index, coefficients)]
        seen = measured_lines[i]
        size = seen.sizes / seen.records if seen.records > 0 else fitted[MEAN_SIZE]
        line = lines[found - 1] if found else unknown[0]
        total_ms += measured[i].hits * line_at(line, size, fitted)
    return total_ms
