"""Forecasters: estimate the number of records that will arrive in the next periods."""

from abc import ABC, abstractmethod

import numpy as np

from penstock.policies.base import Policy
from penstock.policies.kernels import Float64
from penstock.policies.validation import between, whole


class Forecaster(Policy, ABC):
    """Forecasts a series of counts, one for each period."""

    family = "forecaster"

    @abstractmethod
    def forecast(self, series: Float64, periods: int) -> Float64:
        """Return the next values, none below 0.

        Called by scalers that forecast, for each source and every period.

        Args:
            series: measured values, the newest last; at least one.
            periods: number of values to forecast, >= 1.
        """

    def residuals(self, series: Float64, periods: int) -> Float64:
        """Return the errors of forecasts so many periods ahead: measured values minus forecasts.

        Called by `Preventive`, for each source and every period.
        """
        starts = range(2, series.size - periods + 1)
        found = [
            float(series[i + periods - 1] - self.forecast(series[:i], periods)[-1]) for i in starts
        ]
        return np.array(found)


class LastValue(Forecaster):
    """Expects the newest value again.

    Example:
        >>> LastValue().forecast(np.array([1.0, 5.0]), 2)
        array([5., 5.])
    """

    name = "last_value"

    def forecast(self, series: Float64, periods: int) -> Float64:
        """Repeat the newest value."""
        whole("periods", periods, least=1)
        return np.full(periods, max(0.0, float(series[-1])))


class LeastSquares(Forecaster):
    r"""Expects the line through the series, fitted by least squares.

    $$f(t) = a + b t, \qquad (a, b) = \arg\min \sum_k (x_k - a - b k)^2$$

    Example:
        >>> LeastSquares().forecast(np.array([1.0, 2.0, 3.0]), 2).round(6)
        array([4., 5.])

    References:
        AUTOSCALE (Kombi et al., 2017), Eq. 2.
    """

    name = "least_squares"

    def forecast(self, series: Float64, periods: int) -> Float64:
        """Extend the line."""
        whole("periods", periods, least=1)
        if series.size == 1:
            return np.full(periods, max(0.0, float(series[0])))
        at = np.arange(series.size, dtype=np.float64)
        slope, start = np.polyfit(at, series, 1)
        ahead = series.size + np.arange(periods)
        line: Float64 = np.maximum(start + slope * ahead, 0.0)
        return line

    def slope(self, series: Float64) -> float:
        """Return the increase of the line from one period to the next."""
        if series.size < 2:
            return 0.0
        return float(np.polyfit(np.arange(series.size), series, 1)[0])


class DampedTrend(Forecaster):
    r"""Exponential smoothing with a trend that fades away.

    $$\ell_t = \alpha x_t + (1 - \alpha)(\ell_{t-1} + \phi b_{t-1}), \qquad
      b_t = \beta (\ell_t - \ell_{t-1}) + (1 - \beta) \phi b_{t-1}, \qquad
      \hat x_{t+h} = \ell_t + (\phi + \dots + \phi^h) b_t$$

    Args:
        level: alpha, weight of the newest value, in (0, 1].
        trend: beta, weight of the newest change, in (0, 1].
        damping: phi, in (0, 1]; 1 is Holt's linear trend.

    Example:
        >>> DampedTrend(level=1, trend=1, damping=1).forecast(np.array([1.0, 2.0, 3.0]), 2)
        array([4., 5.])

    References:
        E. S. Gardner and E. McKenzie, "Forecasting trends in time series", 1985.
    """

    name = "damped_trend"

    def __init__(self, level: float = 0.5, trend: float = 0.3, damping: float = 0.8) -> None:
        self.level = between("level", level, 0, 1, closed="high")
        self.trend = between("trend", trend, 0, 1, closed="high")
        self.damping = between("damping", damping, 0, 1, closed="high")

    def forecast(self, series: Float64, periods: int) -> Float64:
        """Extend level and fading trend."""
        whole("periods", periods, least=1)
        level, change = float(series[0]), 0.0
        for value in series[1:]:
            before = level
            expected = level + self.damping * change
            level = self.level * float(value) + (1 - self.level) * expected
            change = self.trend * (level - before) + (1 - self.trend) * self.damping * change
        fading = np.cumsum(self.damping ** np.arange(1, periods + 1))
        return np.maximum(level + fading * change, 0.0)
