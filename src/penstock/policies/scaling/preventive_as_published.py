"""AUTOSCALE, word by word."""

import math
from typing import Literal

from penstock.policies.scaling.base import LEAST_COST_MS, History, Observed, Scaler, Topology
from penstock.policies.scaling.forecasting import LeastSquares
from penstock.policies.validation import between, known, whole

Combine = Literal["max", "min"]
_LINE = LeastSquares()


class PreventiveAsPublished(Scaler):
    r"""Preventive auto-parallelization as its paper describes it, for comparison.

    For every operator the input of the next window is forecast by a line through the last one
    (Eq. 2, 3), and divided by its capacity (Eq. 4, 6):

    $$LAL = \frac{\sum_k f(m_k) + pending}{\Delta \cdot degree / cost}$$

    A critical parent's estimated output (Eq. 7 to 9) is combined with a child's own estimate (Eq.
    10, Algorithm 1). The activity is low up to `low`, high above `high` and critical above 1.
    Table I gives the decision for an activity and a trend, Eq. 11 the number of instances.

    Args:
        window: number of periods of a window, >= 2.
        low: theta_min, activity up to which an operator is low, in [0, high).
        high: theta_max, activity above which an operator is high, in (0, 1).
        combine: "max" favours capacity, "min" favours few instances.
        grace: number of periods after a change in which an operator is not changed again, >= 0.
        min_degree: least number of instances of an operator, >= 1.
        max_degree: largest number of instances of an operator.
        min_executors: least number of executors of an application, >= 1.
        max_executors: largest number of executors of an application; None for the number at the
            time it is attached.

    Example:
        >>> PreventiveAsPublished(window=6).combine
        'max'

    References:
        R. K. Kombi, N. Lumineau and P. Lamarre, "A Preventive Auto-Parallelization Approach for
        Elastic Stream Processing", ICDCS 2017, section IV; Table II for the defaults.

    Deviations:
        The covariance of Eq. 5 is 0, as in the authors' code: its unit is not that of a capacity.
        Eq. 8 does not multiply by the window again, as Eq. 4 has done so already. The grace period
        is one window, for both directions, as in the authors' code; it is read from the history.
    """

    name = "preventive_as_published"

    def __init__(
        self,
        window: int = 6,
        low: float = 0.3,
        high: float = 0.8,
        combine: Combine = "max",
        grace: int = 6,
        min_degree: int = 1,
        max_degree: int = 8,
        min_executors: int = 1,
        max_executors: int | None = None,
    ) -> None:
        super().__init__(min_degree, max_degree, min_executors, max_executors)
        self.window = whole("window", window, least=2)
        self.high = between("high", high, 0, 1)
        self.low = between("low", low, 0, self.high, closed="low")
        self.combine: Combine = (
            "max" if known("combine", combine, ("max", "min")) == "max" else "min"
        )
        self.grace = whole("grace", grace, least=0)

    def wanted(self, topology: Topology, history: History) -> dict[str, tuple[int, str]]:
        """Follow section IV operator by operator, parents first."""
        if history.periods < 2:
            return {}
        inputs: dict[str, float] = {}
        outputs: dict[str, float] = {}
        critical: dict[str, bool] = {}
        found = {}
        for name, parents in topology.parents.items():
            seen = history.operators[name].last(self.window)
            capacity = self._capacity(seen, history.period_s)
            local = float(_LINE.forecast(seen.received, self.window).sum()) + seen.pending
            inputs[name] = local
            if any(critical[parent] for parent in parents):
                together = sum(outputs[parent] for parent in parents)
                inputs[name] = (
                    max(local, together) if self.combine == "max" else min(local, together)
                )
            critical[name] = local > capacity
            outputs[name] = min(inputs[name], capacity) * seen.selectivity
            if not math.isnan(capacity) and not self._in_grace(seen):
                found[name] = self._decide(seen, inputs[name] / capacity, capacity)
        return found

    def _capacity(self, seen: Observed, period_s: float) -> float:
        """Return the number of records that can be processed within a window (Eq. 4)."""
        return 1000 / max(seen.mean_cost_ms, LEAST_COST_MS) * self.window * period_s * seen.degree

    def _in_grace(self, seen: Observed) -> bool:
        return bool(seen.unchanged < self.grace)

    def _decide(self, seen: Observed, activity: float, capacity: float) -> tuple[int, str]:
        """Return the degree and the reason by Table I and Eq. 11."""
        # The margin is for rounding: a line through equal values is not quite level.
        rising = _LINE.slope(seen.received) > 1e-9 * max(1.0, float(seen.received.mean()))
        why = f"activity {activity:.2f}, capacity {capacity:.0f} records a window"
        fitting = math.ceil(seen.degree * activity)
        if activity > 1:
            return fitting, f"critical, {why}"
        if activity > self.high:
            return (seen.degree + 1, f"high and rising, {why}") if rising else (seen.degree, "")
        if activity <= self.low and not rising:
            return max(1, fitting), f"low, {why}"
        return seen.degree, ""
