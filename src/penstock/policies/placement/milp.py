"""The exact model of load balancing, solved by HiGHS."""

import numpy as np

from penstock.policies.kernels import Int64
from penstock.policies.placement.base import Placer
from penstock.policies.placement.bounds import lower_bound
from penstock.policies.placement.cluster import Cluster
from penstock.policies.placement.local_search import search
from penstock.policies.placement.problem import ROUNDING
from penstock.policies.validation import at_least_zero, positive, whole


class Milp(Placer):
    r"""Solves the balancing problem exactly where it is small, and by `LocalSearch` elsewhere.

    With $x_{ik} = 1$ if key group $k$ of load $l_k$ and price $p_k$ goes to worker $i$ of capacity
    $c_i$, now at home on $h_k$, and the workers $A$ that stay:

    $$\min\; d - w (d_u + d_l), \qquad d, d_u, d_l \ge 0$$

    $$\sum_i x_{ik} = 1, \qquad \sum_k \sum_{i \ne h_k} p_k x_{ik} \le budget$$

    $$c_i (mean - d + d_l) \le \sum_k l_k x_{ik} \le c_i (mean + d - d_u) \quad (i \in A)$$

    The solver starts from what the local search has found, and cannot end with less: when time or
    nodes run out, the best plan known is taken as a whole. It is not even asked if the search has
    reached the goal or the lower bound, or if there are more binary variables than it can deal
    with in a second or so. Other resources have one hard row for each worker.

    Args:
        max_migrations: how many key groups a plan may move, >= 0; None for any number.
        max_cost: what their migration costs may sum up to, >= 0; None for anything.
        goal: load distance in points at which it stops, >= 0. Raise it to save migrations.
        tolerated: load distance in points that is reached before workers are drained, >= 0;
            infinite to drain first.
        max_binaries: size up to which the solver is asked: live workers times key groups, >= 0.
        max_nodes: of the solver's tree, >= 1: what limits it on any machine alike.
        time_limit_s: what limits it at last, > 0.

    Example:
        >>> cluster = Cluster(load=[5, 4, 3, 3, 3], placement=[0, 0, 0, 0, 0], capacity=[1, 1])
        >>> Milp().plan(cluster).distance_after
        0.0

    References:
        K. G. S. Madsen, Y. Zhou and J. Cao, "Integrative Dynamic Reconfiguration in a Parallel
        Stream Processing Engine", ICDE 2017, section 4.3.1.

    Deviations:
        $d_u$ and $d_l$ are not negative, or $d$ would always be 0. Constraint 5 is left out: it
        makes the problem infeasible where a worker has more than twice the mean. The mean is not
        rounded. Nothing moves to workers that are to be removed: Lemma 1 does not hold. The search
        decides how many key groups leave these (reach the tolerated distance, drain, spend the
        rest), and the solver has to let as many leave: key groups without load would never do so
        by the distance alone.
    """

    name = "milp"

    def __init__(
        self,
        max_migrations: int | None = None,
        max_cost: float | None = None,
        goal: float = 0.01,
        tolerated: float = 5.0,
        max_binaries: int = 3_000,
        max_nodes: int = 5_000,
        time_limit_s: float = 2.0,
    ) -> None:
        super().__init__(max_migrations, max_cost)
        self.goal = at_least_zero("goal", goal)
        self.tolerated = np.inf if tolerated == np.inf else at_least_zero("tolerated", tolerated)
        self.max_binaries = whole("max_binaries", max_binaries, least=0)
        self.max_nodes = whole("max_nodes", max_nodes, least=1)
        self.time_limit_s = positive("time_limit_s", time_limit_s)

    def place(self, cluster: Cluster) -> tuple[Int64, str]:
        """Search, and let the solver improve it."""
        problem = self.problem(cluster)
        known = search(problem, self.goal, self.tolerated)
        enough = max(self.goal, lower_bound(problem))
        binaries = int(problem.live.sum()) * int((~problem.frozen).sum())
        if problem.distance(known) <= enough + ROUNDING:
            return known, ""
        if binaries > self.max_binaries:
            return known, f"too large to be solved exactly ({binaries:,} binaries), searched"
        # Imported here: it takes a tenth of a second, and most plans do without.
        from penstock.policies.placement.highs import solve  # noqa: PLC0415

        return solve(problem, known, enough, self.max_nodes, self.time_limit_s)
