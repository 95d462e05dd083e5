"""Forecasters: exact series, an independent twin, and what none of them may do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.scaling import DampedTrend, Forecaster, LastValue, LeastSquares

ALL = [LastValue(), LeastSquares(), DampedTrend(), DampedTrend(1, 1, 1), DampedTrend(0.1, 0.9, 0.3)]
BY_NAME = pytest.mark.parametrize("forecaster", ALL, ids=repr)
COUNTS = st.lists(st.floats(0, 1e6), min_size=1, max_size=30).map(np.array)
SHARES = st.floats(0.01, 1)


def plain_damped_trend(series, periods, alpha, beta, phi):
    """The formulas of the docstring, with all levels and trends in lists."""
    levels, trends = [series[0]], [0.0]
    for value in series[1:]:
        levels.append(alpha * value + (1 - alpha) * (levels[-1] + phi * trends[-1]))
        trends.append(beta * (levels[-1] - levels[-2]) + (1 - beta) * phi * trends[-1])
    found = []
    for ahead in range(1, periods + 1):
        fading = sum(phi**power for power in range(1, ahead + 1))
        found.append(max(0.0, levels[-1] + fading * trends[-1]))
    return found


@BY_NAME
@pytest.mark.parametrize("value", [0.0, 7.0, 1e9])
@pytest.mark.parametrize("size", [1, 2, 12])
def test_a_constant_series_stays(forecaster, value, size):
    found = forecaster.forecast(np.full(size, value), 3)
    np.testing.assert_allclose(found, [value] * 3, rtol=1e-9, atol=1e-9)


@BY_NAME
def test_of_one_value_that_value_is_expected(forecaster):
    np.testing.assert_array_equal(forecaster.forecast(np.array([5.0]), 2), [5.0, 5.0])
    assert forecaster.residuals(np.array([5.0]), 1).size == 0


def test_the_last_value_whatever_was_before():
    found = LastValue().forecast(np.array([100.0, 3.0, 4.0]), 3)
    assert found.tolist() == [4.0, 4.0, 4.0]


@pytest.mark.parametrize("forecaster", [LeastSquares(), DampedTrend(1, 1, 1)], ids=repr)
@pytest.mark.parametrize("slope", [-2.0, 0.5, 30.0])
def test_a_line_goes_on(forecaster, slope):
    series = 100 + slope * np.arange(8)
    expected = 100 + slope * np.arange(8, 11)
    np.testing.assert_allclose(forecaster.forecast(series, 3), expected)


def test_least_squares_by_hand():
    # 1, 2, 6: the slope is (6 - 1) / 2, the mean is 3 at the place 1.
    line = LeastSquares()
    np.testing.assert_allclose(line.forecast(np.array([1.0, 2.0, 6.0]), 2), [8.0, 10.5])
    assert line.slope(np.array([1.0, 2.0, 6.0])) == pytest.approx(2.5)
    assert line.slope(np.array([9.0, 4.0])) == pytest.approx(-5)
    assert line.slope(np.array([9.0])) == 0


def test_a_line_of_two_values():
    np.testing.assert_allclose(LeastSquares().forecast(np.array([2.0, 3.0]), 2), [4.0, 5.0])


def test_a_damped_line_by_hand():
    found = DampedTrend(level=0.5, trend=0.5, damping=0.4).forecast(np.array([10.0, 20.0, 25.0]), 2)
    # Levels: 10, 15, then 16 is expected and 20.5 taken. Trends: 2.5, then 2.75 + 0.5.
    np.testing.assert_allclose(found, [20.5 + 0.4 * 3.25, 20.5 + (0.4 + 0.16) * 3.25])


def test_a_damped_trend_expects_less_than_the_line_but_more_than_the_last_value():
    rising = 10.0 * np.arange(1, 13)
    line = LeastSquares().forecast(rising, 5)
    damped = DampedTrend().forecast(rising, 5)
    assert (damped < line).all()
    assert (damped > LastValue().forecast(rising, 5)).all()
    assert (np.diff(damped) > 0).all()
    assert (np.diff(damped, 2) < 0).all()  # it fades away


@settings(deadline=None, max_examples=150)
@given(COUNTS, st.integers(1, 6), SHARES, SHARES, SHARES)
def test_as_the_plain_twin(series, periods, alpha, beta, phi):
    found = DampedTrend(alpha, beta, phi).forecast(series, periods)
    twin = plain_damped_trend(series.tolist(), periods, alpha, beta, phi)
    np.testing.assert_allclose(found, twin, rtol=1e-9, atol=1e-6)


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(ALL), COUNTS, st.integers(1, 6))
def test_never_negative_and_as_many_as_asked_for(forecaster, series, periods):
    kept = series.copy()
    found = forecaster.forecast(series, periods)
    assert found.shape == (periods,)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    np.testing.assert_array_equal(series, kept)


@pytest.mark.parametrize("forecaster", [LeastSquares(), DampedTrend(1, 1, 1)], ids=repr)
def test_a_falling_line_ends_at_zero(forecaster):
    found = forecaster.forecast(np.array([30.0, 20.0, 10.0]), 3)
    np.testing.assert_allclose(found, [0.0, 0.0, 0.0], atol=1e-9)


@BY_NAME
def test_a_read_only_series_is_enough(forecaster):
    series = np.array([1.0, 2.0, 4.0])
    series.flags.writeable = False
    assert forecaster.forecast(series, 2).size == 2
    assert forecaster.residuals(series, 1).size == 1


def test_residuals_are_what_came_more_than_forecast():
    series = np.array([1.0, 2.0, 4.0, 3.0, 9.0])
    # From the first two values on.
    assert LastValue().residuals(series, 1).tolist() == [2.0, -1.0, 6.0]
    assert LastValue().residuals(series, 2).tolist() == [1.0, 5.0]
    assert LastValue().residuals(series, 4).size == 0


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(ALL), COUNTS, st.integers(1, 4))
def test_residuals_look_at_the_past_only(forecaster, series, periods):
    found = forecaster.residuals(series, periods)
    assert found.size == max(0, series.size - periods - 1)
    for i, residual in enumerate(found):
        known = series[: 2 + i]
        came = series[1 + i + periods]
        assert residual == came - forecaster.forecast(known, periods)[-1]


def test_a_line_has_no_residuals():
    rising = 5.0 * np.arange(1, 10)
    np.testing.assert_allclose(LeastSquares().residuals(rising, 2), np.zeros(6), atol=1e-9)


@pytest.mark.parametrize("parameter", ["level", "trend", "damping"])
@pytest.mark.parametrize(
    "value, message",
    [
        (0, "must be in (0, 1]; got 0"),
        (1.5, "must be in (0, 1]; got 1.5"),
        (-0.1, "must be in (0, 1]; got -0.1"),
        (float("nan"), "must be finite; got nan"),
        ("0.5", "must be a number; got '0.5'"),
    ],
)
def test_bad_parameters(parameter, value, message):
    with pytest.raises(PenstockError) as caught:
        DampedTrend(**{parameter: value})
    assert str(caught.value) == f"{parameter} {message}"


@pytest.mark.parametrize("forecaster", [DampedTrend(), LastValue(), LeastSquares()])
def test_at_least_one_period_is_forecast(forecaster):
    with pytest.raises(PenstockError, match=r"^periods must be >= 1; got 0$"):
        forecaster.forecast(np.array([1.0, 2.0]), 0)


def test_all_are_registered():
    assert set(Forecaster.registered()) == {"damped_trend", "last_value", "least_squares"}
    assert Forecaster.named("damped_trend", level=0.5) == DampedTrend(level=0.5)
