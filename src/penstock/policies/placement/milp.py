"""The exact model of load balancing, solved by HiGHS."""

from penstock.extras import refuse_missing
from penstock.policies.kernels import Int64
from penstock.policies.placement.bounds import lower_bound
from penstock.policies.placement.cluster import Cluster
from penstock.policies.placement.local_search import Balancer
from penstock.policies.placement.problem import ROUNDING
from penstock.policies.validation import positive, whole


class Milp(Balancer):
    r"""Solves small balancing problems exactly, and larger ones by the search of `LocalSearch`.

    Key group $k$ has load $l_k$ and price $p_k$, and now lives on worker $h_k$. Worker $i$ has
    capacity $c_i$; the workers $A$ stay. With $x_{ik} = 1$ if key group $k$ goes to worker $i$:

    $$\min\; d - w (d_u + d_l), \qquad d, d_u, d_l \ge 0$$

    $$\sum_i x_{ik} = 1, \qquad \sum_k \sum_{i \ne h_k} p_k x_{ik} \le budget$$

    $$c_i (mean - d + d_l) \le \sum_k l_k x_{ik} \le c_i (mean + d - d_u) \quad (i \in A)$$

    The solver starts from the result of the local search, and never returns a worse one. When its
    nodes run out, the best known plan is taken as a whole. The solver is left out if the search
    has reached the goal or the lower bound. It is also left out if there are more binary variables
    than it can handle in a few seconds. Other resources have one hard row for each worker.

    Args:
        max_migrations: largest number of key groups that a plan may move, >= 0; None for no limit.
        max_cost: largest total migration cost of a plan, >= 0; None for no limit.
        goal: load distance in points at which the search and the solver stop, >= 0. Raise it to
            save migrations.
        tolerated: load distance in points that is reached before workers are drained, >= 0;
            infinite to drain first.
        max_binaries: largest problem for the solver: live workers times key groups, >= 0.
        max_nodes: largest number of nodes of the solver's tree, >= 1. This limit ends the solver,
            so the same cluster gives the same plan on any machine.
        time_limit_s: longest time of the solver, > 0. It is an emergency brake, about twenty times
            the time of a usual plan. A plan that it stops depends on the machine, and its reason
            names this.

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
        decides how many key groups leave these workers: it reaches the tolerated distance, drains,
        and spends the rest. The solver has to let as many leave: by the distance alone, key groups
        without load would never leave.
    """

    name = "milp"

    def __init__(
        self,
        max_migrations: int | None = None,
        max_cost: float | None = None,
        goal: float = 0.01,
        tolerated: float = 5.0,
        max_binaries: int = 1_000,
        max_nodes: int = 100,
        time_limit_s: float = 120.0,
    ) -> None:
        refuse_missing("highspy", extra="solvers", what="Milp")
        super().__init__(max_migrations, max_cost, goal, tolerated)
        self.max_binaries = whole("max_binaries", max_binaries, least=0)
        self.max_nodes = whole("max_nodes", max_nodes, least=1)
        self.time_limit_s = positive("time_limit_s", time_limit_s)

    def place(self, cluster: Cluster) -> tuple[Int64, str]:
        """Search, and let the solver improve the result."""
        problem = self.problem(cluster)
        known = self.balanced(problem)
        enough = max(self.goal, lower_bound(problem))
        binaries = int(problem.live.sum()) * int((~problem.frozen).sum())
        if problem.distance(known) <= enough + ROUNDING:
            return known, ""
        if binaries > self.max_binaries:
            return known, f"too large to be solved exactly ({binaries:,} binaries), searched"
        # Imported here: the import takes a tenth of a second, and most plans do not need it.
        from penstock.policies.placement.highs import solve  # noqa: PLC0415

        return solve(
            problem,
            known,
            enough=enough,
            max_nodes=self.max_nodes,
            time_limit_s=self.time_limit_s,
        )
