"""The preventive scaler: plans by hand, forecasts, slack, and noise that changes nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from observations import CHAIN, NAN, closed_loop, degree, line, observed, plan

from penstock.errors import PenstockError
from penstock.policies.scaling import (
    DampedTrend,
    LastValue,
    LeastSquares,
    Preventive,
    PreventiveAsPublished,
    Threshold,
)

# An instance does 10 records of 100 ms in a second.


@pytest.mark.parametrize("per_s, expected", [(9.4, 1), (9.6, 2), (37.9, 4), (38.1, 5), (90, 8)])
def test_preventive_by_hand_at_constant_load(per_s, expected):
    assert degree(Preventive(), [10 * per_s] * 12, now=1) == expected


def test_preventive_says_why():
    high = plan(Preventive(), sink=observed([390] * 6))
    assert high.reason == "sink: high, forecast 39 records/s against a capacity of 40, 4 -> 5"
    critical = plan(Preventive(), sink=observed([500] * 6))
    assert critical.reason.startswith("sink: critical, forecast 50 records/s against a capacity")
    low = plan(Preventive(), sink=observed([50] * 6))
    assert low.reason == "sink: low, forecast 5 records/s against a capacity of 40, 4 -> 1"


@pytest.mark.parametrize("horizon, expected", [(1, 3), (3, 4)])
def test_preventive_looks_ahead(horizon, expected):
    scaler = Preventive(LeastSquares(), horizon=horizon)
    # 400 or 600 records of 50 ms will come.
    assert degree(scaler, [100, 200, 300], now=1, cost_ms=50) == expected


@pytest.mark.parametrize("quantile, expected", [(1, 4), (0.5, 3), (0, 3)])
def test_preventive_adds_what_forecasts_were_short_of(quantile, expected):
    scaler = Preventive(LastValue(), quantile=quantile)
    # 50 too few, then 50 too many.
    assert degree(scaler, [100, 100, 150, 100], now=1, cost_ms=200) == expected


@pytest.mark.parametrize("drain_s, expected", [(20, 3), (5, 6)])
def test_preventive_works_a_backlog_off(drain_s, expected):
    scaler = Preventive(drain_s=drain_s)
    assert degree(scaler, [100] * 6, now=2, pending=202) == expected


def test_preventive_forgets_what_is_before_its_window():
    assert degree(Preventive(window=3), [5_000] * 5 + [100] * 4, now=2) == 2
    assert degree(Preventive(LeastSquares(), window=2), [9_000, 100, 100], now=2) == 2


def test_preventive_takes_the_newest_costs():
    assert degree(Preventive(), [100] * 4, now=2, cost_ms=[100, 100, 200, 200]) == 3
    seen = observed([100] * 4, 2, processed=[100, 100, 0, 0], cost_ms=[100, 300, NAN, NAN])
    assert plan(Preventive(), sink=seen).degrees == {"sink": 3}


def test_preventive_does_not_fall_for_a_short_dip():
    plateau = [390] * 10
    assert degree(Preventive(), [*plateau, 0], now=5) == 5
    assert degree(Preventive(), [*plateau, 0, 0], now=5) == 5
    assert degree(Preventive(), [*plateau, 0, 0, 0], now=5) < 5
    assert degree(Preventive(), [*plateau, 0, 0, 0, 0, 0], now=6) == 1
    # The paper's line forecasts a fall.
    published = Preventive.as_published()
    assert degree(published, [*plateau, 0, 0, 0], now=5) == 1


def test_preventive_keeps_some_slack_when_it_removes():
    # 18.5 a second: two instances would do for 19.
    assert degree(Preventive(), [185] * 12, now=1) == 2
    assert degree(Preventive(), [185] * 12, now=4) == 3
    assert degree(Preventive(), [185] * 12, now=3) == 3
    assert degree(Preventive(slack=0), [185] * 12, now=3) == 2


def test_a_starved_operator_behind_a_bottleneck_is_scaled_at_once():
    # 50 a second come; parse does 10, so the sink has no more to do than it can.
    parse = observed([500] * 6, 1, processed=[100] * 6, pending=2_400)
    sink = observed([100] * 6, 1)
    assert plan(Preventive(), CHAIN, parse=parse, sink=sink).degrees == {"parse": 8, "sink": 6}
    assert plan(Threshold(), CHAIN, parse=parse, sink=sink).degrees == {"parse": 2, "sink": 2}
    idle = observed([100] * 6, 1, cost_ms=20)
    assert plan(Preventive(), CHAIN, parse=parse, sink=idle).degrees["sink"] == 2
    assert plan(Threshold(), CHAIN, parse=parse, sink=idle).degrees["sink"] == 1
    published = plan(PreventiveAsPublished(), CHAIN, parse=parse, sink=idle)
    assert published.degrees["sink"] == 1


def test_preventive_takes_any_forecaster():
    assert Preventive().forecaster is None
    ours = Preventive(DampedTrend())
    rising = line(100, 60)
    assert degree(ours, rising) == degree(Preventive(), rising)
    assert degree(Preventive(LeastSquares()), rising) > degree(Preventive(LastValue()), rising)


def test_a_forecaster_is_no_name():
    with pytest.raises(PenstockError, match="forecaster must be"):
        Preventive(forecaster="damped_trend")


@settings(deadline=None, max_examples=60)
@given(
    st.floats(1, 75),
    st.lists(st.floats(-0.01, 0.01), min_size=30, max_size=40).map(np.array),
)
def test_noise_around_a_constant_load_does_not_flap(per_s, noise):
    received = 10 * per_s * (1 + noise)
    up = closed_loop(Preventive(), received, 1)
    assert (np.diff(up) >= 0).all()
    down = closed_loop(Preventive(), received, 8)
    assert (np.diff(down) <= 0).all()
