"""Collocation for ALBIC: brings pairs of key groups together on one worker."""

from typing import NamedTuple

import numpy as np

from penstock.policies.kernels import Bool, Float64, Int64
from penstock.policies.placement.problem import ROUNDING, Problem


class Options(NamedTuple):
    """The ways to bring pairs of key groups together: one entry for each pair.

    Attributes:
        possible: whether the pair can be brought together.
        to: worker on which both would be.
        price: part of the budget that the move would take.
        balance: gain in balance: sum by which squared deviations would fall.
        distance: larger deviation of both workers from the mean after the move, in points.
    """

    possible: Bool
    to: Int64
    price: Float64
    balance: Float64
    distance: Float64


class Collocation:
    """Units of key groups, some of which have been brought together and stay on their worker.

    Args:
        problem: problem in which every key group is a unit.
        unit: unit of each key group at first.

    Attributes:
        unit: present unit of each key group.
        where: present worker of each key group.
        pinned: whether each key group has to stay on its worker.
    """

    def __init__(self, problem: Problem, unit: Int64) -> None:
        self.problem = problem
        self.unit = unit.copy()
        self.where = problem.home.copy()
        self.pinned = problem.frozen.copy()
        self._used = np.zeros_like(problem.room)
        np.add.at(self._used, self.where, problem.others)

    def options(self, one: Int64, other: Int64) -> Options:
        """Return how each key group would be brought together with another one.

        One of both moves to the worker of the other, with its unit. A single key group moves to one
        in a unit of several; otherwise the less loaded worker receives. Nothing moves to a worker
        that is to be removed, and nothing that was brought together moves again.

        Args:
            one: one key group of each pair.
            other: other key group of each pair.
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
        return Options(
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
