"""The balancing problem as a mixed-integer program, solved by HiGHS."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from penstock.extras import needs
from penstock.policies.kernels import Float64, Int64
from penstock.policies.placement.problem import ROUNDING, Problem

# Weight of d_u and d_l, where the weight of the distance is 1: w1 > 2 * w2, and so small that no
# distance is given away for it.
_SECOND = 1e-3
_INFINITE = np.inf


def solve(
    problem: Problem, known: Int64, *, enough: float, max_nodes: int, time_limit_s: float
) -> tuple[Int64, str]:
    """Return the best placement that the solver finds, and a note for the reason of the plan.

    Args:
        problem: problem to solve.
        known: known placement; the result is at least as good.
        enough: load distance in points at which the solver stops.
        max_nodes: largest number of nodes of the solver's tree.
        time_limit_s: longest time of the solver, an emergency brake.
    """
    model = _Model.of(problem, known, enough)
    highspy = _highspy()
    solver = highspy.Highs()
    options = {
        "output_flag": False,
        "threads": 1,
        "time_limit": time_limit_s,
        "mip_max_nodes": max_nodes,
        "mip_rel_gap": 1e-4,
        "mip_abs_gap": 1e-6,
        "random_seed": 0,
    }
    for option, value in options.items():
        solver.setOptionValue(option, value)
    solver.passModel(model.lp())
    start = highspy.HighsSolution()
    start.col_value = model.columns_of(problem, known).tolist()
    solver.setSolution(start)
    solver.run()
    status = highspy.HighsModelStatus
    notes = {
        status.kOptimal: "proven to be best",
        status.kTimeLimit: f"the best known after {time_limit_s:g} s, which depends on the machine",
    }
    note = notes.get(
        solver.getModelStatus(), "the best known when the solver's limits were reached"
    )
    columns = np.asarray(solver.getSolution().col_value)
    if columns.size != model.size:
        return known, note
    found = model.placement(problem, columns)
    better = problem.distance(found) < problem.distance(known) - ROUNDING
    allowed = problem.spent(found) <= problem.budget + ROUNDING
    return (found if better and allowed else known), note


class _Row(NamedTuple):
    """A constraint of the program: lower <= sum of coefficients * columns <= upper.

    Attributes:
        columns: numbers of the columns.
        coefficients: coefficient of each column.
        lower: lower limit of the sum.
        upper: upper limit of the sum.
    """

    columns: Int64
    coefficients: Float64
    lower: float = -_INFINITE
    upper: float = _INFINITE


@dataclass(frozen=True, eq=False)
class _Model:
    """The program: one column for each allowed unit and worker, then d, d_u and d_l.

    Attributes:
        unit: unit of each of the first columns.
        worker: worker of each of the first columns.
        rows: constraints.
        least: lower limit of the distance d.
    """

    unit: Int64
    worker: Int64
    rows: list[_Row]
    least: float

    @property
    def size(self) -> int:
        return self.unit.size + 3

    @classmethod
    def of(cls, problem: Problem, known: Int64, enough: float) -> "_Model":
        """Return the program of a problem, in which as many units leave workers as is known."""
        stays = np.zeros((problem.load.size, problem.capacity.size), dtype=np.bool_)
        stays[np.arange(problem.home.size), problem.home] = True
        allowed = (problem.live | stays) & ~problem.frozen[:, np.newaxis]
        unit, worker = (index.astype(np.int64) for index in np.nonzero(allowed))
        model = cls(unit=unit, worker=worker, rows=[], least=enough)
        model._place_each_unit(problem)
        model._limit_moves(problem, known)
        for one in np.flatnonzero(problem.live):
            model._balance(problem, int(one))
        return model

    def _place_each_unit(self, problem: Problem) -> None:
        for one in np.flatnonzero(~problem.frozen):
            own = np.flatnonzero(self.unit == one)
            self.rows.append(
                _Row(columns=own, coefficients=np.ones(own.size), lower=1.0, upper=1.0)
            )

    def _limit_moves(self, problem: Problem, known: Int64) -> None:
        """Keep to the budget, and drain workers as far as the known placement does."""
        if problem.budget < np.inf:
            paid = np.flatnonzero(self.worker != problem.home[self.unit])
            price = problem.price[self.unit[paid]]
            self.rows.append(_Row(columns=paid, coefficients=price, upper=problem.budget))
        waits = np.flatnonzero(~problem.live[self.worker])
        most = problem.undrained(known).size
        self.rows.append(_Row(columns=waits, coefficients=np.ones(waits.size), upper=most))

    def _balance(self, problem: Problem, worker: int) -> None:
        """Tie the load of a worker to d, d_u and d_l, and limit its other resources."""
        own = np.flatnonzero(self.worker == worker)
        held = problem.frozen & (problem.home == worker)
        units, capacity = self.unit[own], problem.capacity[worker]
        d, upper, lower = self.unit.size + np.arange(3)
        even = capacity * problem.mean - problem.load[held].sum()
        most = np.append(problem.load[units], [-capacity, capacity])
        self.rows.append(_Row(columns=np.append(own, [d, upper]), coefficients=most, upper=even))
        least = np.append(problem.load[units], [capacity, -capacity])
        self.rows.append(_Row(columns=np.append(own, [d, lower]), coefficients=least, lower=even))
        for resource in range(problem.others.shape[1]):
            room = problem.room[worker, resource] - problem.others[held, resource].sum()
            load = problem.others[units, resource]
            self.rows.append(_Row(columns=own, coefficients=load, upper=room))

    def lp(self) -> Any:  # noqa: ANN401 - a HighsLp
        """Return the program in the solver's form."""
        highspy = _highspy()
        binaries, lp = self.unit.size, highspy.HighsLp()
        lp.num_col_, lp.num_row_ = self.size, len(self.rows)
        lp.col_cost_ = np.append(np.zeros(binaries), [1.0, -_SECOND, -_SECOND])
        lp.col_lower_ = np.append(np.zeros(binaries), [self.least, 0.0, 0.0])
        lp.col_upper_ = np.append(np.ones(binaries), np.full(3, _INFINITE))
        lp.row_lower_ = np.array([row.lower for row in self.rows])
        lp.row_upper_ = np.array([row.upper for row in self.rows])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lengths = [row.columns.size for row in self.rows]
        lp.a_matrix_.start_ = np.append(0, np.cumsum(lengths)).astype(np.int32)
        columns = np.concatenate([row.columns for row in self.rows])
        lp.a_matrix_.index_ = columns.astype(np.int32)
        lp.a_matrix_.value_ = np.concatenate([row.coefficients for row in self.rows])
        whole_numbers = [highspy.HighsVarType.kInteger] * binaries
        lp.integrality_ = [*whole_numbers, *[highspy.HighsVarType.kContinuous] * 3]
        return lp

    def columns_of(self, problem: Problem, where: Int64) -> Float64:
        """Return the values of all columns for a placement."""
        deviations = problem.deviations(where)[problem.live]
        distance = max(self.least, float(np.abs(deviations).max()))
        sides = [distance - deviations.max(), distance + deviations.min()]
        chosen = (where[self.unit] == self.worker).astype(np.float64)
        return np.append(chosen, [distance, *np.maximum(sides, 0.0)])

    def placement(self, problem: Problem, columns: Float64) -> Int64:
        """Return the placement that values of the columns stand for."""
        where = problem.home.copy()
        chosen = columns[: self.unit.size] > 0.5
        where[self.unit[chosen]] = self.worker[chosen]
        return where


def _highspy() -> Any:  # noqa: ANN401 - a package without types
    return needs("highspy", extra="solvers", what="Milp")
