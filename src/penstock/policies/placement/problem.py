"""The problem that search and solver work on: units to place within a budget."""

from typing import NamedTuple

import numpy as np

from penstock.policies.kernels import Bool, Float64, Int64
from penstock.policies.placement.cluster import FULL, Cluster

# Largest rounding error of a sum of floating-point numbers.
ROUNDING = 1e-9


class Problem(NamedTuple):
    """Units (key groups, or several that move together), their workers, and the price of moves.

    A named tuple, so that kernels take it as one argument.

    Attributes:
        load: load of each unit on the bottleneck resource, in points.
        others: load of each unit on the other resources, with a column for each.
        price: price of moving each unit, taken from the budget.
        home: present worker of each unit.
        frozen: whether each unit has to stay on its worker.
        capacity: capacity of each worker.
        live: whether each worker stays; no unit may move to another one.
        room: largest load of each worker on the other resources: its capacity, or its present load
            if that is larger.
        budget: limit of the total price of all moves.
        mean: load that every live worker would have, in points per capacity.
    """

    load: Float64
    others: Float64
    price: Float64
    home: Int64
    frozen: Bool
    capacity: Float64
    live: Bool
    room: Float64
    budget: float
    mean: float

    @classmethod
    def of(cls, cluster: Cluster, price: Float64, budget: float) -> "Problem":
        """Return the problem in which every key group is a unit."""
        others = np.delete(cluster.load, cluster.bottleneck, axis=1)
        carried = _sums(cluster.placement, others, cluster.workers)
        return cls(
            load=cluster.load[:, cluster.bottleneck].copy(),
            others=others,
            price=price.copy(),
            home=cluster.placement.copy(),
            frozen=np.zeros(cluster.key_groups, dtype=np.bool_),
            capacity=cluster.capacity.copy(),
            live=cluster.live.copy(),
            room=np.maximum(FULL * cluster.capacity[:, np.newaxis], carried),
            budget=budget,
            mean=cluster.mean,
        )

    def merged(self, unit: Int64) -> "Problem":
        """Return the problem in which key groups of the same unit move together.

        Args:
            unit: unit of each key group, 0, 1, ...; key groups of one unit have the same home.
        """
        count = int(unit.max(initial=-1)) + 1
        home = np.zeros(count, dtype=np.int64)
        home[unit] = self.home
        return self._replace(
            load=_sums(unit, self.load, count),
            others=_sums(unit, self.others, count),
            price=_sums(unit, self.price, count),
            home=home,
            frozen=np.bincount(unit, weights=self.frozen, minlength=count) > 0,
        )

    def deviations(self, where: Int64) -> Float64:
        """Return the deviation of each worker from the mean, in points; 0 for removed workers."""
        carried = np.bincount(where, weights=self.load, minlength=self.capacity.size)
        return np.where(self.live, carried / self.capacity - self.mean, 0.0)

    def distance(self, where: Int64) -> float:
        """Return the load distance of a placement of the units, in points."""
        return float(np.abs(self.deviations(where)).max(initial=0.0))

    def spent(self, where: Int64) -> float:
        """Return the part of the budget that a placement takes."""
        return float(self.price[where != self.home].sum())

    def undrained(self, where: Int64) -> Int64:
        """Return the units that a placement leaves on workers that are to be removed."""
        return np.flatnonzero(~self.live[where] & ~self.frozen)

    def largest(self, where: Int64, giver: int, taker: int, most: float) -> int | None:
        """Return the largest unit that one worker can give to another; None if there is none.

        The unit must be at home, and fit into the rest of the budget and into the taker.

        Args:
            where: present worker of each unit.
            giver: worker that gives.
            taker: worker that receives.
            most: largest load of the unit, in points.
        """
        left = self.budget - self.spent(where)
        used = self.others[where == taker].sum(axis=0)
        fitting = np.flatnonzero(
            (where == giver)
            & (self.home == giver)
            & (self.load > 0)
            & (self.load <= most + ROUNDING)
            & (self.price <= left + ROUNDING)
            & (used + self.others <= self.room[taker] + ROUNDING).all(axis=1)
        )
        return int(fitting[np.argmax(self.load[fitting])]) if fitting.size else None


def _sums(labels: Int64, rows: Float64, count: int) -> Float64:
    sums = np.zeros((count, *rows.shape[1:]))
    np.add.at(sums, labels, rows)
    return sums
