"""The balancing problem as a mixed-integer program, and HiGHS to solve it."""

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from penstock.policies.kernels import Float64, Int64
from penstock.policies.placement.problem import ROUNDING, Problem

# Weight of the tighter one of both sides, where the weight of the distance is 1: w1 > 2 * w2, and
# so much smaller that no distance is given away for it.
_SECOND = 1e-3


def solve(
    problem: Problem, known: Int64, enough: float, max_nodes: int, time_limit_s: float
) -> tuple[Int64, str]:
    """Return the best placement, at least as good as the known one, and what is to be said."""
    model = _Model.of(problem, known, enough)
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
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
    proven = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    note = "proven to be best" if proven else "the best known when the solver's limits were reached"
    columns = np.asarray(solver.getSolution().col_value)
    if columns.size != model.size:
        return known, note
    found = model.placement(problem, columns)
    better = problem.distance(found) < problem.distance(known) - ROUNDING
    allowed = problem.spent(found) <= problem.budget + ROUNDING
    return (found if better and allowed else known), note


@dataclass(frozen=True, eq=False)
class _Model:
    """The program: one column for each unit and worker, then d, d_u and d_l."""

    unit: Int64
    worker: Int64
    rows: list[tuple[Int64, Float64, float, float]]
    least: float

    @property
    def size(self) -> int:
        return self.unit.size + 3

    @classmethod
    def of(cls, problem: Problem, known: Int64, enough: float) -> "_Model":
        """Write down columns and rows: (columns, coefficients, lower, upper)."""
        movable = np.flatnonzero(~problem.frozen)
        stays = np.zeros((problem.load.size, problem.capacity.size), dtype=np.bool_)
        stays[np.arange(problem.home.size), problem.home] = True
        allowed = (problem.live | stays) & ~problem.frozen[:, np.newaxis]
        unit, worker = (index.astype(np.int64) for index in np.nonzero(allowed))
        away = worker != problem.home[unit]
        load, infinite = problem.load[unit], highspy.kHighsInf
        d, upper, lower = unit.size + np.arange(3)
        rows: list[tuple[Int64, Float64, float, float]] = []
        for one in movable:
            own = np.flatnonzero(unit == one)
            rows.append((own, np.ones(own.size), 1.0, 1.0))
        if problem.budget < np.inf:
            paid = np.flatnonzero(away)
            rows.append((paid, problem.price[unit[paid]], -infinite, problem.budget))
        waits = np.flatnonzero(~problem.live[worker])
        rows.append((waits, np.ones(waits.size), -infinite, problem.undrained(known).size))
        fixed = np.bincount(
            problem.home[problem.frozen],
            weights=problem.load[problem.frozen],
            minlength=problem.capacity.size,
        )
        for one in np.flatnonzero(problem.live):
            own = np.flatnonzero(worker == one)
            capacity = problem.capacity[one]
            even = capacity * problem.mean - fixed[one]
            most = np.append(load[own], [-capacity, capacity])
            rows.append((np.append(own, [d, upper]), most, -infinite, even))
            least = np.append(load[own], [capacity, -capacity])
            rows.append((np.append(own, [d, lower]), least, even, infinite))
            held = problem.frozen & (problem.home == one)
            for resource in range(problem.others.shape[1]):
                room = problem.room[one, resource] - problem.others[held, resource].sum()
                rows.append((own, problem.others[unit[own], resource], -infinite, room))
        return cls(unit, worker, rows, enough)

    def lp(self) -> highspy.HighsLp:
        """Return the program in the solver's form."""
        binaries, lp = self.unit.size, highspy.HighsLp()
        lp.num_col_, lp.num_row_ = self.size, len(self.rows)
        lp.col_cost_ = np.append(np.zeros(binaries), [1.0, -_SECOND, -_SECOND])
        lp.col_lower_ = np.append(np.zeros(binaries), [self.least, 0.0, 0.0])
        lp.col_upper_ = np.append(np.ones(binaries), np.full(3, highspy.kHighsInf))
        lp.row_lower_ = np.array([lower for _, _, lower, _ in self.rows])
        lp.row_upper_ = np.array([upper for _, _, _, upper in self.rows])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lengths = [columns.size for columns, _, _, _ in self.rows]
        lp.a_matrix_.start_ = np.append(0, np.cumsum(lengths)).astype(np.int32)
        lp.a_matrix_.index_ = np.concatenate([row[0] for row in self.rows]).astype(np.int32)
        lp.a_matrix_.value_ = np.concatenate([row[1] for row in self.rows])
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
