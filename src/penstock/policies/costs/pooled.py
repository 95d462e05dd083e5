"""One table of costs that instances of different speed measure together, and their slowdowns."""

import numpy as np
import numpy.typing as npt

from penstock.policies.codec import Arrays
from penstock.policies.costs import heavy_hitters, totals
from penstock.policies.costs.base import HotKey
from penstock.policies.costs.heavy_hitters import MAX_CAPACITY, Table
from penstock.policies.costs.space_saving import SpaceSaving
from penstock.policies.kernels import Bool, Float64, Int64, kernel

# Variance of the slowdown of an instance that has sent nothing yet.
_UNKNOWN = 0.1
# Comparisons of costs of one key after which their measured and assumed variance weigh the same.
_PAIRS = 32.0
# The table is aged in steps of this share of its half-life.
_AGING = 1 / 32


# Everything that a pool has learnt, and how fast it forgets (a plain tuple for the reason that is
# given at `heavy_hitters.Table`):
#   costs: table of the costs on an average instance,
#   slowdown: cost of a record on each instance over its cost on an average one,
#   uncertainty: variance of each slowdown,
#   drift: expected change of a slowdown within 1,000 records of its instance (standard deviation),
#   half_life: number of records after which a measurement counts half,
#   unaged: number of records since the table was last aged, as an array of one,
#   compared: instances that have measured costs, if only these are compared with each other.
Pool = tuple[Table, Float64, Float64, float, float, Float64, Bool]


class PooledCosts:
    r"""One table of costs of records, learnt from all instances, and a slowdown for each of them.

    The slowdown $s_i$ follows the ratio of measured to expected costs of known keys, through a
    Kalman filter. It moves at once if keys predict the costs, and slowly if they do not. Costs
    measured by instance $i$ are divided by $s_i$ before the table learns them. Slowdowns are
    relative: a factor that all of them share goes to the table, so that their mean stays 1. If the
    spread is kept, an instance that has measured nothing does not count in that mean.

    Args:
        instances: number of instances that measure, >= 1.
        capacity: entries of the table per instance; the table has at most 65,535 in all.
        half_life: number of records after which a measurement counts half.
        drift: expected change of a slowdown within 1,000 records of its instance (standard
            deviation).
        seed: seed of the hash function of the table's index.
        spread: whether to keep how much the costs of a key differ.

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
        spread: bool = False,
    ) -> None:
        self.half_life = half_life
        self.drift = drift
        self.table = self._empty(min(instances * capacity, MAX_CAPACITY), seed, spread)
        self.slowdown = np.ones(instances)
        self.heard = np.zeros(instances, dtype=np.bool_)
        self._uncertainty = np.full(instances, _UNKNOWN)
        self._unaged = np.zeros(1)
        self._pool: Pool = (
            self.table.table,
            self.slowdown,
            self._uncertainty,
            drift,
            half_life,
            self._unaged,
            self.heard if spread else np.ones(instances, dtype=np.bool_),
        )

    def _empty(self, capacity: int, seed: int, spread: bool) -> SpaceSaving:
        """Return an empty table."""
        return SpaceSaving(capacity, seed, spread)

    def estimate(self, keys: npt.ArrayLike, sizes: npt.ArrayLike | None = None) -> Float64:
        """Return the expected cost of a record of each key on an average instance.

        Args:
            keys: keys of the records.
            sizes: sizes of the records, if costs by size are learnt.
        """
        return self.table.estimate(keys)

    def spread_ms(self, keys: npt.ArrayLike, sizes: npt.ArrayLike | None = None) -> Float64:
        """Return how far costs may be from their estimates (standard deviation)."""
        return self.table.spread_ms(keys)

    def expected_total_ms(self, instance: int, measured: SpaceSaving) -> float:
        """Return the total cost that was expected of the measured records on an instance."""
        hits = measured.hits()
        expected = float((self.table.estimate(measured.keys()) * hits).sum())
        evicted = measured.records - float(hits.sum())
        expected += evicted * self.table.rest_ms
        return expected * float(self.slowdown[instance])

    def hot_keys(self, most: int) -> list[HotKey]:
        """Return the keys that take the most time, the hottest first.

        Args:
            most: largest number of keys.
        """
        keys, hits = self.table.keys(), self.table.hits()
        means_ms = self._means_ms(keys)
        spent_ms = hits * means_ms
        rest_ms = max(0.0, self.table.records - float(hits.sum())) * self.table.rest_ms
        total_ms = float(spent_ms.sum()) + rest_ms
        hottest = np.argsort(-spent_ms, kind="stable")[:most]
        return [
            HotKey(int(keys[i]), float(spent_ms[i]) / total_ms, float(means_ms[i]))
            for i in hottest
            if spent_ms[i] > 0
        ]

    def _means_ms(self, keys: Int64) -> Float64:
        """Return the mean cost of a record of each key of the table."""
        return self.table.means_ms()

    def learn(self, instance: int, measured: SpaceSaving) -> None:
        """Learn the costs that an instance has measured."""
        if not measured.records:
            return
        self.heard[instance] = True
        _learn(instance, measured.table, self._pool)

    def resized(self, instances: int, capacity: int) -> "PooledCosts":
        """Return the same costs for another number of instances; new ones are of average speed."""
        heard = self.heard.all()
        other = type(self)(
            instances,
            capacity,
            self.half_life,
            self.drift,
            self.table.seed,
            self.table.spread,
        )
        other.table.merge(self.table)
        kept = min(instances, self.slowdown.size)
        other.slowdown[:kept] = self.slowdown[:kept]
        other._uncertainty[:kept] = self._uncertainty[:kept]
        other.heard[:] = heard
        other.heard[:kept] |= self.heard[:kept]
        other._unaged[:] = self._unaged
        return other

    def arrays(self) -> Arrays:
        """Return everything it remembers, for snapshots; the arrays are the ones in use."""
        return {
            "slowdown": self.slowdown,
            "uncertainty": self._uncertainty,
            "heard": self.heard,
            "unaged": self._unaged,
            **{f"costs.{name}": array for name, array in self.table._state().items()},
        }


@kernel
def ratio_of(costs: Table, measured: Table) -> tuple[float, float]:
    """Return measured over expected costs of known keys, and its variance; 0 if no key is known.

    Where the spread of costs is known, all records weigh the same. Otherwise long ones decide.
    """
    _, _, sums, _, squares = costs
    if squares.size:
        ratio, weight = heavy_hitters.relative(costs, measured)
        return ratio, totals.typical_spread(sums) / weight if weight > 0 else 0.0
    there_ms, here_ms = heavy_hitters.compare(costs, measured)
    if there_ms <= 0 or here_ms <= 0:
        return 0.0, 0.0
    _, _, gained, _, _ = measured
    records = gained[totals.RECORDS]
    noise: float = totals.variance_within(sums, _PAIRS) * records / here_ms**2
    return there_ms / here_ms, noise


@kernel
def follow(instance: int, ratio: float, noise: float, records: float, pool: Pool) -> None:
    """Learn the slowdown of an instance from measured over expected costs; 0 teaches nothing.

    Args:
        instance: number of the instance.
        ratio: measured over expected costs.
        noise: variance of the ratio.
        records: number of measured records.
        pool: pool that learns.
    """
    _, slowdown, uncertainty, drift, _, _, compared = pool
    if ratio > 0 and (compared.sum() > 1 or compared.size == 1):
        # A Kalman filter: a clear measurement and an old estimate both increase the weight.
        uncertainty[instance] += drift * drift * records / 1000
        total = uncertainty[instance] + noise
        weight = uncertainty[instance] / total if total > 0 else 0.0
        seen = min(max(ratio, slowdown[instance] / 2), slowdown[instance] * 2)
        slowdown[instance] += weight * (seen - slowdown[instance])
        uncertainty[instance] *= 1 - weight


@kernel
def grow_old(records: float, pool: Pool) -> tuple[float, float]:
    """Age the table if it is time; return the factors of weights and costs that are due.

    Slowdowns are relative: the factor that all of them share belongs to the costs.
    """
    costs, slowdown, _, _, half_life, unaged, compared = pool
    unaged[0] += records
    if unaged[0] < _AGING * half_life:
        return 1.0, 1.0
    common = slowdown[compared].mean()
    slowdown[compared] /= common
    factor = 0.5 ** (unaged[0] / half_life)
    heavy_hitters.age(costs, factor, common)
    unaged[0] = 0
    return factor, common


@kernel
def _learn(instance: int, measured: Table, pool: Pool) -> None:
    """Learn the slowdown of an instance from known keys, then its costs without the slowdown."""
    costs, slowdown, _, _, _, _, _ = pool
    _, _, gained, _, _ = measured
    records = gained[totals.RECORDS]
    ratio, noise = ratio_of(costs, measured)
    follow(instance, ratio, noise, records, pool)
    heavy_hitters.merge(costs, measured, 1 / slowdown[instance])
    grow_old(records, pool)
