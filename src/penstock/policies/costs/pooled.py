"""What instances of different speed measure together: one table of costs, and their slowdowns."""

import numpy as np
import numpy.typing as npt

from penstock.policies.codec import Arrays
from penstock.policies.costs import heavy_hitters
from penstock.policies.costs.heavy_hitters import MAX_CAPACITY, Entries
from penstock.policies.costs.space_saving import SpaceSaving
from penstock.policies.kernels import Float64, UInt16, UInt64, kernel

# Variance of the slowdown of an instance that has not been heard of.
_UNKNOWN = 0.1
# Comparisons of costs of the same key after which their variance is known half.
_PAIRS = 32.0
# The table is aged in steps of this share of its half-life.
_AGING = 1 / 32


class PooledCosts:
    r"""One table of what records cost, learnt from all instances, and a slowdown for each.

    The slowdown $s_i$ follows the ratio of measured to expected costs of keys that are known,
    through a Kalman filter: at once where keys tell the costs, slowly where they do not. What
    instance $i$ has measured is divided by it before the table learns. Slowdowns are relative:
    what all have in common goes to the table, so that their mean stays 1.

    Args:
        instances: how many measure, >= 1.
        capacity: entries of the table per instance; it has at most 65,535 in all.
        half_life: records after which a measurement counts half.
        drift: how much a slowdown is expected to change within 1,000 records of an instance
            (standard deviation).
        seed: of the table's index.

    Example:
        >>> costs = PooledCosts(instances=2, capacity=8)
        >>> measured = SpaceSaving(capacity=8)
        >>> measured.update([1, 2], [10.0, 1.0])
        >>> costs.learn(0, measured)
        >>> costs.estimate([1, 2]), costs.heard
        (array([10.,  1.]), array([ True, False]))
    """

    def __init__(
        self,
        instances: int,
        capacity: int,
        half_life: float = 8192,
        drift: float = 0.02,
        seed: int = 0,
    ) -> None:
        self.half_life = half_life
        self.drift = drift
        self.table = SpaceSaving(min(instances * capacity, MAX_CAPACITY), seed)
        self.slowdown = np.ones(instances)
        self.heard = np.zeros(instances, dtype=np.bool_)
        self._uncertainty = np.full(instances, _UNKNOWN)
        self._unaged = np.zeros(1)

    def estimate(self, keys: npt.ArrayLike) -> Float64:
        """Return what records of these keys cost on an average instance."""
        return self.table.estimate(keys)

    def expected_total_ms(self, instance: int, measured: SpaceSaving) -> float:
        """Return what the measured records were expected to cost on an instance."""
        hits = measured.hits()
        expected = float((self.table.estimate(measured.keys()) * hits).sum())
        evicted = measured.records - float(hits.sum())
        expected += evicted * heavy_hitters.mean_of_rest(self.table.table[2])
        return expected * float(self.slowdown[instance])

    def learn(self, instance: int, measured: SpaceSaving) -> None:
        """Learn what an instance has measured."""
        if not measured.records:
            return
        self.heard[instance] = True
        entries, _, totals, _ = measured.table
        speed = self.slowdown, self._uncertainty, self.drift
        args = *speed, self.half_life, self._unaged, entries, totals, *self.table.table
        _learn(instance, *args)

    def resized(self, instances: int, capacity: int) -> "PooledCosts":
        """Return the same costs for another number of instances; new ones are of average speed."""
        seed, heard = self.table.seed, self.heard.all()
        other = PooledCosts(instances, capacity, self.half_life, self.drift, seed)
        other.table.merge(self.table)
        kept = min(instances, self.slowdown.size)
        other.slowdown[:kept] = self.slowdown[:kept]
        other._uncertainty[:kept] = self._uncertainty[:kept]
        other.heard[:] = heard
        other.heard[:kept] |= self.heard[:kept]
        other._unaged[:] = self._unaged
        return other

    def arrays(self) -> Arrays:
        """Everything it remembers, for snapshots; the arrays are the ones in use."""
        return {
            "slowdown": self.slowdown,
            "uncertainty": self._uncertainty,
            "heard": self.heard,
            "unaged": self._unaged,
            **{f"costs.{name}": array for name, array in self.table._state().items()},
        }


@kernel
def _learn(
    instance: int,
    slowdown: Float64,
    uncertainty: Float64,
    drift: float,
    half_life: float,
    unaged: Float64,
    measured: Entries,
    measured_totals: Float64,
    entries: Entries,
    index: UInt16,
    totals: Float64,
    coefficients: UInt64,
) -> None:
    """Learn an instance's slowdown from keys that are known, then its costs without slowdown."""
    args = entries, index, totals, coefficients
    there_ms, here_ms = heavy_hitters.compare(measured, measured_totals, *args)
    records = measured_totals[heavy_hitters.RECORDS]
    if there_ms > 0 and here_ms > 0:
        # A Kalman filter: the clearer the measurement and the older the estimate, the more.
        uncertainty[instance] += drift * drift * records / 1000
        noise = heavy_hitters.variance_within(totals, _PAIRS) * records / here_ms**2
        total = uncertainty[instance] + noise
        weight = uncertainty[instance] / total if total > 0 else 0.0
        seen = min(max(there_ms / here_ms, slowdown[instance] / 2), slowdown[instance] * 2)
        slowdown[instance] += weight * (seen - slowdown[instance])
        uncertainty[instance] *= 1 - weight
    heavy_hitters.merge(measured, measured_totals, 1 / slowdown[instance], *args)
    unaged[0] += records
    if unaged[0] >= _AGING * half_life:
        # Slowdowns are relative: what all of them have in common belongs to the costs.
        common = slowdown.mean()
        slowdown /= common
        heavy_hitters.age(entries, totals, 0.5 ** (unaged[0] / half_life), common)
        unaged[0] = 0
