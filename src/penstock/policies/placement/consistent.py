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

    With the load $u_i$ of a worker by its capacity, a worker is *busy* if $u_i > mean + band$, and
    *idle* if $u_i < mean - band$. The busiest worker gives a key group to the idlest one: the
    largest that makes the giver not idle and the taker not busy. If no worker is idle, the least
    loaded worker that is not busy takes it. Otherwise all others could stay between the thresholds
    for ever. This goes on until no worker is busy or no key group fits.

    It needs only two signals from each worker, so it works without all loads. It stops within the
    band, and does not swap.

    Args:
        max_migrations: largest number of key groups that a plan may move, >= 0; None for no limit.
        max_cost: largest total migration cost of a plan, >= 0; None for no limit.
        band: distance from the mean beyond which a worker is busy or idle, in points, > 0. Below
            half of a typical key group's load, perhaps no key group fits.

    Example:
        >>> cluster = Cluster(load=[30, 30, 20], placement=[0, 0, 1], capacity=[1, 1])
        >>> Consistent(band=10).plan(cluster).moves
        (Move(key_group=0, source=0, target=1),)

    References:
        Consistent Grouping (Nasir et al., 2016), sections V-B, V-C and VI-A.

    Deviations:
        Key groups have different loads, virtual workers have not: the largest that fits moves.
        Thresholds are relative to the mean, which is known here. All signals come at once, so the
        queues are ordered by load. The worker that was overloaded least recently (section VI-A) is
        the least loaded one. Workers to be removed are drained with the rest of the budget.
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
        """Pair busy with idle workers until no worker is busy."""
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
        """Return the next key group to move, and its new worker; None if there is none."""
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
        """Return the load that keeps the giver from being idle, and the taker from being busy."""
        spare = (deviations[giver] + self.band) * problem.capacity[giver]
        lack = (self.band - deviations[taker]) * problem.capacity[taker]
        return float(min(spare, lack))
