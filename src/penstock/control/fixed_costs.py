"""Fixed costs of batches, apart from the costs of their records."""

from collections import deque

import numpy as np

from penstock.policies.kernels import Float64

# Batches that are remembered, and batches that the time of a batch is taken from.
_LINE = 60
_LAST = 15
# Pairs of batches tell a slope if their numbers of records differ by this share, and so many do.
_DIFFERENT = 0.1
_PAIRS = 10
# Run time of a small task that is taken for its fixed cost while no slope is known.
_TASK_MS = 50.0


class FixedTime:
    r"""The time of a batch that does not depend on its records.

    A batch takes $fixed + records \cdot cost / slots$. The fixed time is the median of what the
    last batches took beyond the work on their records, so a single slow batch changes nothing.

    Example:
        >>> fixed = FixedTime()
        >>> for records in (10, 40, 20):
        ...     fixed.add(0.5 + records * 0.1 / 2, work_s=records * 0.1, slots=2)
        >>> round(fixed.seconds, 3)
        0.5
    """

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_LAST)

    def add(self, taken_s: float, *, work_s: float, slots: int) -> None:
        """Add a batch.

        Args:
            taken_s: duration of the batch.
            work_s: time that its records took on all slots together.
            slots: number of slots that it had.
        """
        self._seconds.append(max(0.0, taken_s - work_s / slots))

    @property
    def seconds(self) -> float:
        """Fixed time of a batch; 0 before the first one."""
        return float(np.median(self._seconds)) if self._seconds else 0.0

    def save(self) -> Float64:
        """Return the last batches, to be kept beyond this process."""
        return np.array(self._seconds)

    def load(self, saved: Float64) -> None:
        """Restore the batches of `save`."""
        self._seconds.extend(float(one) for one in saved)


class RecordTime:
    """The run time of tasks that grows with the number of records.

    Batches of different sizes show it: it is the median slope of the lines through pairs of them.
    Fixed costs of tasks, such as starting Python, are left out by it. While all batches have the
    same size, the first 50 ms of each task count as fixed, and the rest as that of records.

    Example:
        >>> time = RecordTime()
        >>> time.add(100, 700.0, tasks=4), time.per_record_ms
        (None, 5.0)
        >>> for records in range(100, 200, 10):
        ...     time.add(records, 500.0 + 2.0 * records, tasks=4)
        >>> round(time.per_record_ms, 3)
        2.0

    References:
        P. K. Sen, "Estimates of the regression coefficient based on Kendall's tau", 1968.
    """

    def __init__(self) -> None:
        self._batches: deque[tuple[float, float, float]] = deque(maxlen=_LINE)
        self._slope_ms: float | None = None

    def add(self, records: float, run_ms: float, *, tasks: int) -> None:
        """Add a batch with the run time and the number of its tasks."""
        self._batches.append((records, run_ms, max(0.0, run_ms - _TASK_MS * tasks)))
        slopes = self._slopes_ms()
        if slopes.size >= _PAIRS:
            self._slope_ms = max(0.0, float(np.median(slopes)))

    @property
    def per_record_ms(self) -> float:
        """Run time for each record; NaN before the first batch."""
        if not self._batches:
            return float("nan") if self._slope_ms is None else self._slope_ms
        records, run_ms, beyond_ms = np.array(self._batches)[-_LAST:].T.sum(axis=1)
        if self._slope_ms is None:
            return float(beyond_ms / records)
        return min(self._slope_ms, float(run_ms / records))

    def beside(self, records: float, reported_ms: float) -> float:
        """Return the run time of some records, beside the time that operators have reported.

        It is 0 if they have reported more. Then all other run time counts as fixed: under load it
        varies more than it grows with records, and batches grow because they are slow.
        """
        found_ms = records * self.per_record_ms
        return 0.0 if found_ms < reported_ms else found_ms

    def _slopes_ms(self) -> Float64:
        records, run_ms, _ = np.array(self._batches).T
        one, other = np.triu_indices(records.size, 1)
        differ = records[other] - records[one]
        telling = np.abs(differ) > _DIFFERENT * np.median(records)
        slopes: Float64 = (run_ms[other] - run_ms[one])[telling] / differ[telling]
        return slopes

    def save(self) -> Float64:
        """Return the slope, to be kept beyond this process; empty if it is unknown."""
        return np.array([] if self._slope_ms is None else [self._slope_ms])

    def load(self, saved: Float64) -> None:
        """Restore the slope of `save`."""
        if saved.size:
            self._slope_ms = float(saved[0])
