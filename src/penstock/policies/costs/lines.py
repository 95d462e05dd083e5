"""Lines of costs by size: moments of the sizes and costs of some records."""

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.policies.kernels import Bool, Float64, kernel

# Moments of the records of one key whose size is known. `records` and `sizes` are their number and
# the sum of their sizes. `size` and `ms` are weighted means; `sxx`, `sxy` and `syy` are weighted
# sums of squares and products of the differences from these.
LINE = np.dtype(
    [
        (name, np.float32)
        for name in ("records", "sizes", "weight", "size", "ms", "sxx", "sxy", "syy")
    ]
)
Lines = npt.NDArray[Any]
Line = Any  # one of the lines, as Numba sees it

# Sizes above this one count as unknown: sums of their squares would not fit.
LARGEST = 1e15


@kernel
def is_size(size: float) -> bool:
    """Return whether a size is one; null (NaN), negative, infinite and huge ones are not."""
    return 0 <= size <= LARGEST


def are_sizes(sizes: Float64) -> Bool:
    """Return which sizes are some, as `is_size` does for one of them."""
    return (sizes >= 0) & (sizes <= LARGEST)


@kernel
def weight_of(size: float, typical: float) -> float:
    """Return the weight of a record: costs of large records vary more than those of small ones."""
    return 2 * typical / (size + typical) if typical > 0 else 1.0


@kernel
def empty(line: Line) -> None:
    """Forget all records of a line."""
    line.records = 0.0
    line.sizes = 0.0
    line.weight = 0.0
    line.size = 0.0
    line.ms = 0.0
    line.sxx = 0.0
    line.sxy = 0.0
    line.syy = 0.0


@kernel
def add(line: Line, size: float, ms: float, weight: float) -> None:
    """Add one record to the moments of a line."""
    total = line.weight + weight
    apart_size = size - line.size
    apart_ms = ms - line.ms
    shared = line.weight * weight / total
    line.records += 1.0
    line.sizes += size
    line.weight = total
    line.size += apart_size * weight / total
    line.ms += apart_ms * weight / total
    line.sxx += apart_size * apart_size * shared
    line.sxy += apart_size * apart_ms * shared
    line.syy += apart_ms * apart_ms * shared


@kernel
def join(line: Line, other: Line, scale: float) -> None:
    """Add the moments of another line, with its costs multiplied by `scale`."""
    if other.weight <= 0:
        return
    total = line.weight + other.weight
    apart_size = other.size - line.size
    apart_ms = other.ms * scale - line.ms
    share = other.weight / total
    shared = line.weight * share
    line.records += other.records
    line.sizes += other.sizes
    line.weight = total
    line.size += apart_size * share
    line.ms += apart_ms * share
    line.sxx += other.sxx + apart_size * apart_size * shared
    line.sxy += other.sxy * scale + apart_size * apart_ms * shared
    line.syy += other.syy * scale * scale + apart_ms * apart_ms * shared


@kernel
def age(lines: Lines, factor: float, scale: float) -> None:
    """Multiply all weights by `factor` and all costs by `scale`."""
    for i in range(lines.size):
        line = lines[i]
        line.records *= factor
        line.sizes *= factor
        line.weight *= factor
        line.ms *= scale
        line.sxx *= factor
        line.sxy *= factor * scale
        line.syy *= factor * scale * scale


@kernel
def own_slope(line: Line) -> float:
    """Return the slope of the records of one key; 0 if their sizes do not differ."""
    return line.sxy / line.sxx if differs(line.sxx, line.weight, line.size) else 0.0


@kernel
def differs(sxx: float, weight: float, size: float) -> bool:
    """Return whether sizes differ by more than rounding: by a thousandth of their mean."""
    return sxx > 1e-6 * weight * size * size


@kernel
def relative_noise(line: Line) -> float:
    """Return the mean squared deviation from the line of a key, relative to its squared costs."""
    explained = own_slope(line) * line.sxy
    left = max(line.syy - explained, 0.0)
    squares = line.weight * line.ms * line.ms + line.syy - left
    return left / squares if squares > 0 else 0.0
