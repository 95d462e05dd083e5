"""Consistent grouping's delegation: busy workers give key groups to idle ones."""

import numpy as np

from penstock.policies.kernels import Float64, Int64
from penstock.policies.placement.base import Placer
from penstock.policies.placement.cluster import Cluster
from penstock.policies.placement.draining import drain
from penstock.policies.placement.problem import Problem
from penstock.policies.validation import positive


class Consistent(Placer):
    r"""Lets busy workers give key groups to idle ones, one at a time.

    With the load $u_i$ of a worker by its capacity, one is *busy* if $u_i > mean + band$, and
    *idle* if $u_i < mean - band$. The busiest one gives a key group to the idlest one: the largest
    that makes the giver not idle and the taker not busy. Where nobody is idle, it gives to the
    least loaded worker that is not busy, as otherwise all others could sit between the thresholds
    for ever. This goes on until nobody is busy or nothing fits.

    It needs no more than two signals a worker, so it can be done without knowing all loads; it
    stops within the band, and does not swap.

    Args:
        max_migrations: how many key groups a plan may move, >= 0; None for any number.
        max_cost: what their migration costs may sum up to, >= 0; None for anything.
        band: how far from the mean a worker is busy or idle, in points, > 0. Below half of a
            typical key group's load, nothing may fit.

    Example:
        >>> cluster = Cluster(load=[30, 30, 20], placement=[0, 0, 1], capacity=[1, 1])
        >>> Consistent(band=10).plan(cluster).moves
        (Move(key_group=0, source=0, target=1),)

    References:
        Consistent Grouping (Nasir et al., 2016), sections V-B, V-C and VI-A.

    Deviations:
        Key groups have different loads, virtual workers have not: the largest that fits moves.
        Thresholds are relative to the mean, which is known here. All signals come at once, so the
        queues are ordered by load, and who was overloaded least recently (section VI-A) is the
        least loaded one. Workers to be removed are drained with what is left of the budget.
    """

    name = "cg"

    def __init__(
        self,
        max_migrations: int | None = None,
        max_cost: float | None = None,
        band: float = 5.0,
    ) -> None:
        super().__init__(max_migrations, max_cost)
        self.band = positive("band", band)

    def place(self, cluster: Cluster) -> tuple[Int64, str]:
        """Pair busy with idle workers until nobody is busy."""
        problem = self.problem(cluster)
        where = problem.home.copy()
        while True:
            step = self._exchange(problem, where)
            if step is None:
                break
            unit, taker = step
            where[unit] = taker
        drain(problem, where)
        return where, ""

    def _exchange(self, problem: Problem, where: Int64) -> tuple[int, int] | None:
        """Return the next key group to give, and who gets it."""
        deviations = problem.deviations(where)
        live = np.flatnonzero(problem.live)
        busiest_first = live[np.argsort(-deviations[live], kind="stable")]
        calm = busiest_first[::-1][deviations[busiest_first[::-1]] <= self.band]
        for giver in busiest_first[deviations[busiest_first] > self.band]:
            for taker in calm:
                most = self._most(problem, deviations, giver, taker)
                unit = problem.largest(where, giver, taker, most)
                if unit is not None:
                    return unit, int(taker)
        return None

    def _most(self, problem: Problem, deviations: Float64, giver: int, taker: int) -> float:
        """How much one worker can give without being idle, and the other one take."""
        spare = (deviations[giver] + self.band) * problem.capacity[giver]
        lack = (self.band - deviations[taker]) * problem.capacity[taker]
        return float(min(spare, lack))
