"""Balancing by moves and swaps within a budget."""

import numpy as np

from penstock.policies.kernels import Int64
from penstock.policies.placement.base import Placer
from penstock.policies.placement.bounds import lower_bound
from penstock.policies.placement.cluster import Cluster
from penstock.policies.placement.descent import descend
from penstock.policies.placement.draining import drain
from penstock.policies.placement.problem import Problem
from penstock.policies.validation import at_least_zero

# Limit of the steps for each unit: larger than in any known search.
_STEPS_PER_UNIT = 20


class Balancer(Placer):
    """A placer that balances by a local search, alone or as a part of its work.

    Args:
        max_migrations: largest number of key groups that a plan may move, >= 0; None for no limit.
        max_cost: largest total migration cost of a plan, >= 0; None for no limit.
        goal: load distance in points at which the search stops, >= 0.
        tolerated: load distance in points that is reached before workers are drained, >= 0.
    """

    def __init__(
        self, max_migrations: int | None, max_cost: float | None, goal: float, tolerated: float
    ) -> None:
        super().__init__(max_migrations, max_cost)
        self.goal = at_least_zero("goal", goal)
        self.tolerated = np.inf if tolerated == np.inf else at_least_zero("tolerated", tolerated)

    def balanced(self, problem: Problem) -> Int64:
        """Return a good placement of the units within the budget."""
        return search(problem, self.goal, self.tolerated)


class LocalSearch(Balancer):
    r"""Moves and swaps key groups until no worker is far from the mean, within the budget.

    Every step is a move or a swap between the worst worker and another one. It must leave neither
    of both as far from the mean as the worst worker was. The step is made that reduces

    $$\sum_i c_i \max(0, |u_i - mean| - goal)^2$$

    most for its price ($c$ is the capacity of a worker, $u$ its load by capacity). A key group
    that has been moved can move on for free, and its price is paid back if it returns home. The
    search ends when all workers are within the goal or the lower bound, or when no step helps.
    Moves that turn out to be unnecessary are taken back.

    It takes milliseconds where an exact solver takes minutes (60 workers, 1,200 key groups), and
    comes near the lower bound where the budget binds. Workers to be removed are emptied: first the
    tolerated distance is reached, then they are drained. The rest of the budget lowers the
    distance. Nothing ever moves to these workers.

    Args:
        max_migrations: largest number of key groups that a plan may move, >= 0; None for no limit.
        max_cost: largest total migration cost of a plan, >= 0; None for no limit.
        goal: load distance in points at which the search stops, >= 0. Raise it to save migrations.
        tolerated: load distance in points that is reached before workers are drained, >= 0;
            infinite to drain first.

    Example:
        >>> cluster = Cluster(load=[30, 30, 20], placement=[0, 0, 1], capacity=[1, 1])
        >>> plan = LocalSearch(max_migrations=1).plan(cluster)
        >>> plan.moves
        (Move(key_group=0, source=0, target=1),)
        >>> plan.reason
        'load distance 20 -> 10 points (bound 10) with 1 migrations of at most 1'

    References:
        The problem is that of K. G. S. Madsen, Y. Zhou and J. Cao, "Integrative Dynamic
        Reconfiguration in a Parallel Stream Processing Engine", ICDE 2017, section 4.3.1.

    Deviations:
        The paper solves a mixed-integer program with CPLEX (`Milp`). Free solvers do not reach
        its quality in seconds at the paper's larger sizes. Moves and swaps do; moves alone get
        stuck.
    """

    name = "local_search"

    def __init__(
        self,
        max_migrations: int | None = None,
        max_cost: float | None = None,
        goal: float = 0.01,
        tolerated: float = 5.0,
    ) -> None:
        super().__init__(max_migrations, max_cost, goal, tolerated)

    def place(self, cluster: Cluster) -> tuple[Int64, str]:
        """Search from the present placement."""
        return self.balanced(self.problem(cluster)), ""


def search(problem: Problem, goal: float, tolerated: float) -> Int64:
    """Return a good placement of the units within the budget."""
    where = problem.home.copy()
    if problem.undrained(where).size:
        _descend(problem, tolerated, where)
        drain(problem, where)
    enough = max(goal, lower_bound(problem))
    _descend(problem, enough, where)
    _take_back(problem, max(enough, problem.distance(where)), where)
    return where


def _descend(problem: Problem, threshold: float, where: Int64) -> None:
    descend(problem, threshold, _STEPS_PER_UNIT * problem.load.size, where)


def _take_back(problem: Problem, distance: float, where: Int64) -> None:
    """Move units back home that are not needed for this distance, the smallest ones first."""
    deviations = problem.deviations(where)
    used = np.zeros_like(problem.room)
    np.add.at(used, where, problem.others)
    moved = np.flatnonzero((where != problem.home) & problem.live[problem.home])
    for unit in moved[np.argsort(problem.load[moved], kind="stable")]:
        pair = [where[unit], problem.home[unit]]
        change = problem.load[unit] / problem.capacity[pair] * (-1, 1)
        roomy = used[pair[1]] + problem.others[unit] <= problem.room[pair[1]]
        if roomy.all() and (np.abs(deviations[pair] + change) <= distance).all():
            deviations[pair] += change
            used[pair[0]] -= problem.others[unit]
            used[pair[1]] += problem.others[unit]
            where[unit] = problem.home[unit]
