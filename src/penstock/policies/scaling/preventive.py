"""AUTOSCALE: scales before operators are congested."""

import math
from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.policies.kernels import Float64
from penstock.policies.scaling.base import (
    History,
    Observed,
    Scaler,
    Topology,
    degree_for,
    demands,
)
from penstock.policies.scaling.forecasting import DampedTrend, Forecaster
from penstock.policies.scaling.preventive_as_published import PreventiveAsPublished
from penstock.policies.validation import at_least_zero, between, positive, whole


class Preventive(Scaler):
    r"""Preventive auto-parallelization: as many instances as the forecast needs.

    The rates of arrival at the sources are forecast for the next periods. A margin $z$ is added, by
    which earlier forecasts were too low. The rates are propagated along the graph by selectivities.
    A backlog is to be worked off in a given time:

    $$degree = \left\lceil \frac{(\hat\lambda + z + pending / drain) \cdot cost}{usable}
      \right\rceil$$

    $usable$ is the utilization; it is less if fixed costs of batches take more of the time than a
    utilization leaves idle (`Observed.usable`).

    Instances are added at once. They are removed only if fewer, with some slack, would have been
    enough for the last `hold` periods: for all forecasts, and for the records of the newest one.
    So a short dip or noise changes nothing.

    Args:
        forecaster: forecaster of arriving records; None for a damped trend.
        horizon: number of periods to forecast, >= 1: the one that begins, and those until new
            instances work. None for $1 + \lceil 1/2 + lead / period \rceil$, with the measured
            time until new instances work; it is 2 if they work at once.
        quantile: quantile of the forecasts' errors that is added, in [0, 1]; 0.5 corrects a bias
            only, and more is headroom for noise.
        utilization: share of the time that instances should be busy, in (0, 1].
        drain_s: time in which a backlog should be worked off, > 0.
        window: number of periods that the forecast is made from, >= 2.
        hold: number of forecasts for which fewer instances must have been enough, >= 1.
        slack: share by which they must have been more than enough, >= 0.
        min_degree: least number of instances of an operator, >= 1.
        max_degree: largest number of instances of an operator.
        min_executors: least number of executors of an application, >= 1.
        max_executors: largest number of executors of an application; None for the number at the
            time it is attached.

    Example:
        >>> rising, done = np.array([80.0, 120, 160]), np.full(3, 80.0)
        >>> seen = Observed(
        ...     received=rising,
        ...     processed=done,
        ...     emitted=done,
        ...     cost_ms=np.full(3, 100.0),
        ...     pending=120.0,
        ...     degree=1,
        ... )
        >>> plan = Preventive().plan(Topology.linear("sink"), History(10.0, {"sink": seen}))
        >>> plan.degrees
        {'sink': 3}

    References:
        R. K. Kombi, N. Lumineau and P. Lamarre, "A Preventive Auto-Parallelization Approach for
        Elastic Stream Processing", ICDCS 2017. `as_published` follows it word by word.

    Deviations:
        Demand is propagated from the sources. The present capacity does not limit it (Eq. 8), as
        that hides operators behind a bottleneck. A damped trend instead of a line through a minute,
        which forecasts nearly nothing after a short dip. Headroom by utilization and by errors of
        forecasts instead of activity levels. No grace period for scale-out. A backlog is drained in
        a given time, not within one window. The covariance of Eq. 5 is left out: its unit is not
        that of a capacity.
    """

    name = "preventive"

    def __init__(
        self,
        forecaster: Forecaster | None = None,
        horizon: int | None = None,
        quantile: float = 0.5,
        utilization: float = 0.95,
        drain_s: float = 20.0,
        window: int = 12,
        hold: int = 3,
        slack: float = 0.05,
        min_degree: int = 1,
        max_degree: int = 8,
        min_executors: int = 1,
        max_executors: int | None = None,
    ) -> None:
        super().__init__(min_degree, max_degree, min_executors, max_executors)
        if forecaster is not None and not isinstance(forecaster, Forecaster):
            raise PenstockError(
                f"forecaster must be a Forecaster, such as DampedTrend(); got {forecaster!r}"
            )
        self.forecaster = forecaster
        self.horizon = None if horizon is None else whole("horizon", horizon, least=1)
        self.quantile = between("quantile", quantile, 0, 1, closed="low high")
        self.utilization = between("utilization", utilization, 0, 1, closed="high")
        self.drain_s = positive("drain_s", drain_s)
        self.window = whole("window", window, least=2)
        self.hold = whole("hold", hold, least=1)
        self.slack = at_least_zero("slack", slack)
        self._forecaster = forecaster or DampedTrend()

    @classmethod
    def as_published(cls, **params: Any) -> PreventiveAsPublished:  # noqa: ANN401
        """Return the scaler that follows the paper's text."""
        return PreventiveAsPublished(**params)

    def wanted(self, topology: Topology, history: History) -> dict[str, tuple[int, str]]:
        """Plan for the forecast, and remove instances that were not needed for a while."""
        coming = {n: self._coming_per_s(history, n) for n in topology.sources}
        came = {n: self._most_per_s(history, n) for n in topology.sources}
        ahead, held = demands(topology, history, coming), demands(topology, history, came)
        found = {}
        for name in topology.parents:
            seen = history.operators[name]
            cost_ms = seen.recent_cost_ms(2)
            if math.isnan(cost_ms):
                continue
            rate_per_s = ahead[name] + seen.backlog / self.drain_s
            usable = seen.usable(self.utilization)
            degree = degree_for(rate_per_s, cost_ms, usable)
            if degree < seen.degree:
                roomy = (1 + self.slack) * max(rate_per_s, held[name])
                degree = min(seen.degree, degree_for(roomy, cost_ms, usable))
            found[name] = degree, _why(seen, ahead[name], cost_ms, degree)
        return found

    def _coming_per_s(self, history: History, name: str) -> float:
        """Return the largest rate that is expected at a source in the next periods."""
        series = history.operators[name].received[-self.window :]
        coming = self._expected(series, history)
        errors = self._forecaster.residuals(series, 1)
        margin = float(np.quantile(errors, self.quantile)) if errors.size else 0.0
        return (coming + max(0.0, margin)) / history.period_s

    def _periods_ahead(self, history: History) -> int:
        """Return the horizon: until instances of the next plan, a period later, would work.

        The newest value is the mean of its period, so it is half a period old.
        """
        if self.horizon is not None:
            return self.horizon
        return 1 + math.ceil(0.5 + history.lead_s / history.period_s - 1e-9)

    def _most_per_s(self, history: History, name: str) -> float:
        """Return the largest rate that was expected in the last `hold` periods, or came now."""
        received = history.operators[name].received
        ends = range(max(1, received.size - self.hold + 1), received.size + 1)
        expected = max(self._expected(received[:end], history) for end in ends)
        return max(expected, float(received[-1])) / history.period_s

    def _expected(self, received: Float64, history: History) -> float:
        """Return the largest number of records of a period that is forecast."""
        series = received[-self.window :]
        return float(self._forecaster.forecast(series, self._periods_ahead(history)).max())


def _why(seen: Observed, rate_per_s: float, cost_ms: float, degree: int) -> str:
    capacity = seen.degree * 1000 / cost_ms * (1 - min(seen.fixed, 0.5))
    activity = rate_per_s / capacity
    level = "critical" if activity > 1 else "high" if degree > seen.degree else "low"
    return f"{level}, forecast {rate_per_s:.0f} records/s against a capacity of {capacity:.0f}"
