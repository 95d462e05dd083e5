"""Pooled costs by key and size."""

from typing import cast

import numpy.typing as npt

from penstock.policies.costs import lines, sized_table, totals
from penstock.policies.costs.by_size import BySize, sized_of
from penstock.policies.costs.line_fit import NOISE, USEFUL, Fit, fit
from penstock.policies.costs.pooled import Pool, PooledCosts, follow, grow_old, ratio_of
from penstock.policies.costs.sized_table import Sized
from penstock.policies.costs.space_saving import SpaceSaving
from penstock.policies.kernels import Float64, kernel


class PooledBySize(PooledCosts):
    """Pooled costs that follow the size of records (see `BySize`).

    Where lines are useful, the slowdown of an instance follows the ratio of measured costs to those
    of the lines. An instance that got large records is not slow.

    Example:
        >>> import numpy as np
        >>> costs = PooledBySize(instances=1, capacity=8)
        >>> measured, sizes = BySize(capacity=8), np.arange(20.0)
        >>> measured.update(np.full(20, 7), 3 + 2 * sizes, sizes)
        >>> costs.learn(0, measured)
        >>> costs.estimate([7, 8], [10.0, 100.0]).round(3)
        array([ 23., 203.])
    """

    def _empty(self, capacity: int, seed: int, spread: bool) -> BySize:
        return BySize(capacity, seed, spread)

    @property
    def _by_size(self) -> BySize:
        return cast(BySize, self.table)

    def estimate(self, keys: npt.ArrayLike, sizes: npt.ArrayLike | None = None) -> Float64:
        """Return the expected cost of each record on an average instance."""
        return self._by_size.estimate(keys, sizes)

    def spread_ms(self, keys: npt.ArrayLike, sizes: npt.ArrayLike | None = None) -> Float64:
        """Return how far costs may be from their estimates (standard deviation)."""
        return self._by_size.spread_ms(keys, sizes)

    def expected_total_ms(self, instance: int, measured: SpaceSaving) -> float:
        """Return the total cost that was expected of the measured records on an instance."""
        table = self._by_size
        if not table.useful:
            return super().expected_total_ms(instance, measured)
        expected_ms = sized_table.expected_total(table.sized, sized_of(measured), table.fitted)
        evicted = measured.records - float(measured.hits().sum())
        expected_ms += evicted * table.rest_ms
        return expected_ms * float(self.slowdown[instance])

    def learn(self, instance: int, measured: SpaceSaving) -> None:
        """Learn the costs that an instance has measured."""
        if not measured.records:
            return
        self.heard[instance] = True
        table = self._by_size
        _learn(instance, sized_of(measured), self._pool, table.sized, table.fitted)


@kernel
def _learn(instance: int, measured: Sized, pool: Pool, sized: Sized, fitted: Fit) -> None:
    """Learn the slowdown of an instance, then its costs and lines without the slowdown."""
    costs, slowdown, _, _, _, _, _ = pool
    table, _ = measured
    _, _, gained, _, _ = table
    _, own_lines = sized
    records = gained[totals.RECORDS]
    ratio, noise = 0.0, 0.0
    if fitted[USEFUL]:
        ratio, weight = sized_table.relative(sized, measured, fitted)
        noise = fitted[NOISE] / weight if weight > 0 else 0.0
    if ratio == 0:
        ratio, noise = ratio_of(costs, table)
    follow(instance, ratio, noise, records, pool)
    sized_table.merge(sized, measured, 1 / slowdown[instance], fitted)
    factor, common = grow_old(records, pool)
    if factor < 1 or common != 1:
        lines.age(own_lines, factor, common)
    _, _, sums, _, _ = costs
    fit(own_lines, int(sums[totals.SIZE]), fitted)
