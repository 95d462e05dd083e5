"""Flux: moves the biggest key group from the most to the least loaded worker."""

import numpy as np

from penstock.policies.kernels import Int64
from penstock.policies.placement.base import Placer
from penstock.policies.placement.cluster import Cluster
from penstock.policies.placement.draining import drain
from penstock.policies.placement.problem import Problem


class Flux(Placer):
    r"""Pairs the most with the least loaded worker, the second with the second last, and so on.

    The more loaded worker of a pair gives its biggest suitable key group to the other one. A key
    group is suitable if its move lowers the variance of loads, and does not make the other worker
    the more loaded one. Its load is at most

    $$l \le \frac{u_i - u_j}{1 / c_i + 1 / c_j}$$

    ($c$ is the capacity of a worker, $u$ its load by capacity). Then workers are sorted again,
    until no key group is suitable or the budget is spent. No key group moves twice. It sees one
    pair at a time and never swaps. So it needs more migrations than necessary, and gets stuck where
    differences are smaller than key groups.

    Args:
        max_migrations: largest number of key groups that a plan may move, >= 0; None for no limit.
        max_cost: largest total migration cost of a plan, >= 0; None for no limit.

    Example:
        >>> cluster = Cluster(load=[30, 20, 10], placement=[0, 0, 1], capacity=[1, 1])
        >>> Flux(max_migrations=1).plan(cluster).distance_after
        0.0

    References:
        M. A. Shah et al., "Flux: An Adaptive Partitioning Operator for Continuous Query
        Systems", ICDE 2003, as described in ALBIC (Madsen et al., 2017), section 2.2.

    Deviations:
        The paper defines "suitable" only by a lower variance; any key group that lowers it would be
        another reading (`docs/papers/albic.md`). Flux does not know workers that are to be removed:
        they are drained with the rest of the budget. Unequal capacities, other resources and
        migration costs are respected.
    """

    name = "flux"

    def place(self, cluster: Cluster) -> tuple[Int64, str]:
        """Move from pair to pair, round by round."""
        problem = self.problem(cluster)
        where = problem.home.copy()
        while _one_round(problem, where):
            pass
        drain(problem, where)
        return where, ""


def _one_round(problem: Problem, where: Int64) -> bool:
    """Let every pair move one key group; return whether any pair has moved one."""
    deviations = problem.deviations(where)
    live = np.flatnonzero(problem.live)
    ordered = live[np.argsort(-deviations[live], kind="stable")]
    moved = False
    for giver, taker in zip(ordered, ordered[::-1], strict=True):
        if deviations[giver] <= deviations[taker]:
            break
        ease = float((1 / problem.capacity[[giver, taker]]).sum())
        most = (deviations[giver] - deviations[taker]) / ease
        unit = problem.largest(where, giver, taker, most)
        if unit is not None:
            where[unit] = taker
            moved = True
    return moved
