"""An hour of numbers in bounded memory."""

import math
from collections.abc import Sequence

import numpy as np

from penstock.policies.kernels import Float32, Float64

HOUR_S = 3_600


class History:
    """Keeps the newest rows of numbers, one row for each moment.

    Rows are kept in a ring of single precision, with times relative to the first row: 3,600 rows
    of 8 numbers take 130 kB.

    Args:
        names: names of the numbers of a row.
        rows: largest number of rows.

    Example:
        >>> history = History(("rate",), rows=4)
        >>> for second in range(6):
        ...     history.add(float(second), [10.0 * second])
        >>> history.thinned(since_s=3.0, most=2)
        {'time_s': [3.0, 5.0], 'rate': [30.0, 50.0]}
    """

    def __init__(self, names: Sequence[str], rows: int = HOUR_S) -> None:
        self.names = tuple(names)
        self._rows: Float32 = np.full((rows, 1 + len(self.names)), np.nan, dtype=np.float32)
        self._began_s = 0.0
        self._added = 0

    def __len__(self) -> int:
        return min(self._added, len(self._rows))

    @property
    def memory_bytes(self) -> int:
        """Bytes of all rows, whether they are used or not."""
        return self._rows.nbytes

    def add(self, time_s: float, numbers: Sequence[float]) -> None:
        """Add a row.

        Args:
            time_s: time of the row, in seconds since 1970; not before the last one.
            numbers: numbers in the order of the names; NaN for an unknown one.
        """
        if not self._added:
            self._began_s = time_s
        self._rows[self._added % len(self._rows)] = [time_s - self._began_s, *numbers]
        self._added += 1

    def last(self) -> dict[str, float | None]:
        """Return the newest numbers; None for unknown ones, or before the first row."""
        if not self._added:
            return dict.fromkeys(self.names)
        newest = self._rows[(self._added - 1) % len(self._rows), 1:]
        return dict(zip(self.names, _known(newest.astype(np.float64)), strict=True))

    def thinned(
        self, since_s: float, most: int, names: Sequence[str] | None = None
    ) -> dict[str, list[float | None]]:
        """Return the rows since a time, the oldest first.

        If there are too many, neighbours are joined, and the largest number of each is kept: a
        peak stays visible.

        Args:
            since_s: time of the first row, in seconds since 1970.
            most: largest number of rows that are returned, >= 1.
            names: names of the numbers that are returned; None for all.
        """
        wanted = self.names if names is None else names
        rows = self._since(since_s, [1 + self.names.index(name) for name in wanted])
        step = max(1, -(-len(rows) // most))
        starts = np.arange(0, len(rows), step)
        if starts.size:
            # The oldest rows that join may be fewer, so that the newest ones always join alike.
            starts = np.concatenate(([0], starts[1:] - (-len(rows) % step)))
            rows = np.fmax.reduceat(rows, starts)
        numbers = {name: _known(rows[:, 1 + i]) for i, name in enumerate(wanted)}
        return {"time_s": _known(self._began_s + rows[:, 0]), **numbers}

    def _since(self, since_s: float, columns: list[int]) -> Float64:
        """Return times and some columns of the rows since a time; only these rows are copied."""
        oldest = self._added % len(self._rows) if self._added > len(self._rows) else 0
        parts = self._rows[oldest : self._added], self._rows[:oldest]
        chosen = []
        for part in parts:
            first = int(np.searchsorted(part[:, 0], np.float32(since_s - self._began_s)))
            chosen.append(part[first:, [0, *columns]])
        return np.concatenate(chosen).astype(np.float64)


def _known(numbers: Float64) -> list[float | None]:
    """Return numbers with four decimals, and None for unknown ones."""
    rounded: list[float] = np.round(numbers, 4).tolist()
    return [one if math.isfinite(one) else None for one in rounded]
