"""Pooled costs of keys, learnt from calls with many records each."""

from typing import cast

import numpy as np
import numpy.typing as npt

from penstock.policies.codec import Arrays
from penstock.policies.costs import call_filters, heavy_hitters, sized_table, totals
from penstock.policies.costs.by_call import MS, RECORDS, Calls, calls_of, find
from penstock.policies.costs.call_filters import (
    CALLS,
    EQUAL,
    EXPECTED,
    FIRST,
    LEAST_CALLS,
    SQUARES,
    TOTAL_MS,
    Filters,
    no_filters,
)
from penstock.policies.costs.heavy_hitters import Table, slot_of
from penstock.policies.costs.pooled import Pool, PooledCosts, follow, grow_old, ratio_of
from penstock.policies.costs.space_saving import SpaceSaving
from penstock.policies.kernels import Float64, Int64, kernel
from penstock.policies.validation import int64_keys

# Variance of a normal error over the square of its mean absolute value.
_NORMAL = np.pi / 2


class PooledByCall(PooledCosts):
    """Pooled costs that are estimated from the costs of whole calls (see `ByCall`).

    Filters estimate the cost of each key from all calls (see `call_filters`). They are used while
    they predict the next calls clearly better than equal shares do. Otherwise everything is as in
    `PooledCosts`, whose table learns equal shares of each call.

    Where a filter is used, the slowdown of an instance follows the ratio of measured to predicted
    costs of its calls: an instance that got expensive keys is not slow.

    Example:
        >>> from penstock.policies.costs import ByCall
        >>> costs = PooledByCall(instances=1, capacity=8)
        >>> rng = np.random.default_rng(0)
        >>> for _ in range(200):
        ...     measured, keys = ByCall(capacity=8), rng.integers(0, 2, 10)
        ...     measured.add_call(keys, float(np.where(keys == 0, 9.0, 1.0).sum()))
        ...     costs.learn(0, measured)
        >>> costs.useful, costs.estimate([0, 1]).round(1)
        (True, array([8.4, 1.5]))

    References:
        R. E. Kalman, "A New Approach to Linear Filtering and Prediction Problems", 1960;
        S. Haykin, "Adaptive Filter Theory", 2014, chapter 10, on recursive least squares.

    Deviations:
        Only the diagonal of the covariance is kept, beside the variance of the common level: all of
        it would need the square of the memory.
    """

    def __init__(
        self,
        instances: int,
        capacity: int,
        half_life: float = 8192,
        drift: float = 0.02,
        seed: int = 0,
        spread: bool = False,
    ) -> None:
        super().__init__(instances, capacity, half_life, drift, seed, spread)
        self.filters: Filters = no_filters(self.table.capacity)

    @property
    def _chosen(self) -> int:
        return int(call_filters.chosen(self.filters[3]))

    @property
    def useful(self) -> bool:
        """Whether a filter predicts calls better than equal shares, so that it is used."""
        return self._chosen >= 0

    @property
    def source(self) -> str:
        """Where estimates come from, and the errors of the last predictions; for people."""
        judged = self.filters[3]
        if not judged[CALLS] or not judged[TOTAL_MS]:
            return "equal shares of each batch; nothing is learnt yet"
        equal = judged[EQUAL] / judged[TOTAL_MS]
        filtered = judged[FIRST + call_filters.better(judged)] / judged[TOTAL_MS]
        if self.useful:
            return (
                f"keys, learnt from whole batches; the next batch is predicted with an error of "
                f"{filtered:.1%}, and of {equal:.1%} with equal shares"
            )
        return (
            f"equal shares of each batch; they predict the next batch with an error of {equal:.1%},"
            f" and costs of keys with {filtered:.1%}"
        )

    def estimate(self, keys: npt.ArrayLike, sizes: npt.ArrayLike | None = None) -> Float64:
        """Return the expected cost of a record of each key; sizes do not matter."""
        if not self.useful:
            return super().estimate(keys)
        array = int64_keys("keys", keys)
        columns, out = np.empty(array.size, dtype=np.int64), np.empty(array.size)
        sized_table.find(self.table.table, array, columns)
        call_filters.estimate(self._chosen, columns, self.filters, out)
        return out

    def _means_ms(self, keys: Int64) -> Float64:
        """Return what the filters know of each key of the table, if they are used."""
        return self.estimate(keys)

    def spread_ms(self, keys: npt.ArrayLike, sizes: npt.ArrayLike | None = None) -> Float64:
        """Return how far costs may be from their estimates (standard deviation).

        Single records were not measured. Their deviations are those that explain the errors of
        predicted calls, if records are independent, and grow with the cost.
        """
        judged = self.filters[3]
        if not self.useful or judged[EXPECTED] <= 0:
            return super().spread_ms(keys)
        out: Float64 = self.estimate(keys) * np.sqrt(judged[SQUARES] / judged[EXPECTED])
        return out

    def expected_total_ms(self, instance: int, measured: SpaceSaving) -> float:
        """Return the total cost that was expected of the measured calls on an instance."""
        calls = calls_of(measured)
        if not self.useful or not calls[1].size:
            return super().expected_total_ms(instance, measured)
        columns = np.empty(len(measured), dtype=np.int64)
        find(self.table.table, measured.table, columns)
        expected_ms, _ = _compared(self._chosen, calls, columns, self.filters)
        return float(expected_ms * self.slowdown[instance])

    def learn(self, instance: int, measured: SpaceSaving) -> None:
        """Learn the costs of calls that an instance has measured."""
        if not measured.records:
            return
        self.heard[instance] = True
        _learn(instance, measured.table, calls_of(measured), self._pool, self.filters)

    def resized(self, instances: int, capacity: int) -> "PooledByCall":
        """Return the same costs for another number of instances; new ones are of average speed."""
        other = cast(PooledByCall, super().resized(instances, capacity))
        columns = np.empty(len(other.table), dtype=np.int64)
        find(self.table.table, other.table.table, columns)
        for theirs, mine in zip(other.filters[:2], self.filters[:2], strict=True):
            theirs[:, : columns.size] = mine[:, columns]
            theirs[:, -1] = mine[:, -1]
        for numbers, kept in zip(other.filters[2:], self.filters[2:], strict=True):
            numbers[...] = kept
        return other

    def arrays(self) -> Arrays:
        """Return everything it remembers, for snapshots; the arrays are the ones in use."""
        own_ms, variance, common, judged = self.filters
        return {
            **super().arrays(),
            "calls.own_ms": own_ms,
            "calls.variance": variance,
            "calls.common": common,
            "calls.judged": judged,
        }


@kernel
def _compared(number: int, calls: Calls, columns: Int64, filters: Filters) -> tuple[float, float]:
    """Return the cost of calls that a filter expects, and the measured one."""
    counts, numbers = calls
    found, gathered = np.empty(columns.size + 1, dtype=np.int64), np.empty(columns.size + 1)
    expected_ms, measured_ms = 0.0, 0.0
    for row in range(numbers.shape[0]):
        if numbers[row, RECORDS] > 0:
            used = call_filters.gather(counts[row], numbers[row, RECORDS], columns, found, gathered)
            expected_ms += call_filters.expected(number, found[:used], gathered[:used], filters)[0]
            measured_ms += numbers[row, MS]
    return expected_ms, measured_ms


@kernel
def _learn(instance: int, measured: Table, calls: Calls, pool: Pool, filters: Filters) -> None:
    """Learn the slowdown of an instance, judge the filters, then learn table and filters."""
    costs, slowdown, _, _, _, _, _ = pool
    _, _, gained, _, _ = measured
    _, _, _, judged = filters
    records = gained[totals.RECORDS]
    columns = np.empty(int(gained[totals.SIZE]), dtype=np.int64)
    find(costs, measured, columns)
    best = call_filters.chosen(judged)
    ratio, noise = 0.0, 0.0
    if best >= 0:
        expected_ms, measured_ms = _compared(best, calls, columns, filters)
        if expected_ms > 0:
            ratio = measured_ms / expected_ms
            noise = _NORMAL * (judged[FIRST + best] / judged[TOTAL_MS]) ** 2
    # Expensive keys look like a slow instance until they are known, so speeds wait for the judge.
    if ratio == 0 and (judged[CALLS] >= LEAST_CALLS or not calls[1].size):
        ratio, noise = ratio_of(costs, measured)
    follow(instance, ratio, noise, records, pool)
    scale = 1 / slowdown[instance]
    _judge(costs, measured, calls, columns, scale, filters)
    _merge(costs, measured, scale, filters)
    find(costs, measured, columns)
    counts, numbers = calls
    found, gathered = np.empty(columns.size + 1, dtype=np.int64), np.empty(columns.size + 1)
    for row in range(numbers.shape[0]):
        if numbers[row, RECORDS] > 0:
            used = call_filters.gather(counts[row], numbers[row, RECORDS], columns, found, gathered)
            call_filters.learn(found[:used], gathered[:used], numbers[row, MS] * scale, filters)
    _, common = grow_old(records, pool)
    if common != 1:
        call_filters.rescale(common, filters)


@kernel
def _judge(
    costs: Table, measured: Table, calls: Calls, columns: Int64, scale: float, filters: Filters
) -> None:
    """Compare all predictions of the calls, before anything learns them."""
    entries, _, _, _, _ = measured
    _, _, sums, _, _ = costs
    counts, numbers = calls
    keys = np.empty(columns.size, dtype=np.int64)
    for i in range(columns.size):
        keys[i] = entries[i].key
    equal = np.empty(columns.size)
    heavy_hitters.estimate(costs, keys, equal)
    found, gathered = np.empty(columns.size + 1, dtype=np.int64), np.empty(columns.size + 1)
    for row in range(numbers.shape[0]):
        if numbers[row, RECORDS] > 0:
            left, equal_ms = numbers[row, RECORDS], 0.0
            for i in range(columns.size):
                equal_ms += counts[row, i] * equal[i]
                left -= counts[row, i]
            equal_ms += left * totals.mean_of_rest(sums)
            used = call_filters.gather(counts[row], numbers[row, RECORDS], columns, found, gathered)
            call_filters.judge(
                found[:used], gathered[:used], equal_ms, numbers[row, MS] * scale, filters
            )


@kernel
def _merge(costs: Table, measured: Table, scale: float, filters: Filters) -> None:
    """Merge the tables; a filter forgets the key of an entry that another key takes."""
    entries, index, sums, coefficients, _ = costs
    theirs, _, gained, _, _ = measured
    for i in range(int(gained[totals.SIZE])):
        known = index[slot_of(theirs[i].key, entries, index, coefficients)]
        heavy_hitters.learn_entry(costs, measured, i, scale)
        if not known:
            entry = index[slot_of(theirs[i].key, entries, index, coefficients)] - 1
            call_filters.reset(entry, filters)
    heavy_hitters.gain(sums, gained, scale)
