"""Bringing pairs of key groups together, for ALBIC."""

from dataclasses import dataclass

import numpy as np

from penstock.policies.kernels import Bool, Float64, Int64
from penstock.policies.placement.problem import ROUNDING, Problem


@dataclass(frozen=True, eq=False)
class Ways:
    """How pairs would be brought together: one entry a pair.

    Attributes:
        possible: whether there is a way.
        to: the worker on which both would be.
        price: what it would take from the budget.
        balance: what it would do for the balance: by how much squared deviations would fall.
        distance: how far from the mean one of both workers would be, in points.
    """

    possible: Bool
    to: Int64
    price: Float64
    balance: Float64
    distance: Float64


class Together:
    """Units of key groups, of which some have been brought together and stay where they are.

    Args:
        problem: with one unit a key group.
        unit: of each key group, as it is at first.
    """

    def __init__(self, problem: Problem, unit: Int64) -> None:
        self.problem = problem
        self.unit = unit.copy()
        self.where = problem.home.copy()
        self.pinned = problem.frozen.copy()
        self._used = np.zeros_like(problem.room)
        np.add.at(self._used, self.where, problem.others)

    def ways(self, one: Int64, other: Int64) -> Ways:
        """Return how key groups would be brought together with others.

        One goes to the worker of the other one, with its unit: the single one to the one in a
        unit of several; otherwise to the less loaded worker. Not to a worker that is to be removed,
        and nothing that has been brought somewhere moves again.
        """
        problem, deviations = self.problem, self.problem.deviations(self.where)
        ends = np.stack((one, other))
        workers, units = self.where[ends], self.unit[ends]
        can_stay = problem.live[workers] & ~self.pinned[ends[::-1]]
        several = np.bincount(self.unit)[units] > 1
        alike = several[0] == several[1]
        first = np.where(alike, deviations[workers[0]] <= deviations[workers[1]], several[0])
        first = np.where(can_stay.all(axis=0), first, can_stay[0])
        to, source = np.where(first, workers, workers[::-1])
        moving = np.where(first, units[1], units[0])
        load = np.bincount(self.unit, weights=problem.load)[moving]
        less, more = load / problem.capacity[source], load / problem.capacity[to]
        left = np.where(problem.live[source], deviations[source] - less, 0.0)
        return Ways(
            possible=can_stay.any(axis=0) & (workers[0] != workers[1]),
            to=to,
            price=np.bincount(self.unit, weights=problem.price)[moving],
            balance=load * (2 * (deviations[source] - deviations[to]) - less - more),
            distance=np.maximum(np.abs(left), np.abs(deviations[to] + more)),
        )

    def bring(self, one: int, other: int, to: int) -> bool:
        """Bring the units of two key groups together on a worker; return whether it has room."""
        both = (self.unit == self.unit[one]) | (self.unit == self.unit[other])
        moving = np.flatnonzero(both & (self.where != to))
        more = self.problem.others[moving].sum(axis=0)
        if (self._used[to] + more > self.problem.room[to] + ROUNDING).any():
            return False
        self._used[to] += more
        self._used[self.where[moving[0]]] -= more
        self.where[moving] = to
        self.unit[both] = self.unit[one]
        self.pinned[both] = True
        return True
