"""Scalers: plans by hand, demands along a graph, limits, reasons, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.scaling import (
    DampedTrend,
    Fixed,
    History,
    LastValue,
    LeastSquares,
    Observed,
    Preventive,
    PreventiveAsPublished,
    RateBased,
    Scaler,
    Threshold,
    Topology,
)
from penstock.policies.scaling.base import demands

NAN = float("nan")
ONE = Topology.linear("sink")
CHAIN = Topology.linear("parse", "sink")
ALL = [Fixed(), Threshold(), RateBased(), Preventive(), PreventiveAsPublished()]


def observed(received, degree=4, *, processed=None, selectivity=1.0, cost_ms=100.0, **more):
    """An operator that has processed all that it received, unless `processed` is given."""
    received = np.array(received, dtype=np.float64)
    done = received if processed is None else np.array(processed, dtype=np.float64)
    cost = np.broadcast_to(np.array(cost_ms, dtype=np.float64), received.shape)
    given = {"pending": 0.0, **more}
    return Observed(
        received=received,
        processed=done,
        emitted=selectivity * done,
        cost_ms=cost,
        degree=degree,
        **given,
    )


def plan(scaler, topology=ONE, **operators):
    """A plan from periods of 10 s."""
    return scaler.plan(topology, History(10.0, operators))


def degree(scaler, received, now=4, **more):
    """What a single operator gets."""
    return plan(scaler, sink=observed(received, now, **more)).degrees["sink"]


def line(start, slope, periods=6):
    return start + slope * np.arange(periods)


class Wanting(Scaler):
    """One of the user's own: degrees as given."""

    def __init__(self, given, min_degree=1, max_degree=8):
        super().__init__(min_degree, max_degree)
        self.given = given

    def wanted(self, topology, history):
        return {name: (degree, "because") for name, degree in self.given.items()}


# Topologies.


def test_a_chain():
    chain = Topology.linear("a", "b", "c")
    assert chain == Topology({"a": (), "b": ("a",), "c": ("b",)})
    assert chain.sources == ("a",)
    assert [chain.children(name) for name in "abc"] == [("b",), ("c",), ()]


def test_several_sources_and_children():
    star = Topology({"a": (), "b": (), "c": ("a", "b"), "d": ("c",), "e": ("c",)})
    assert star.sources == ("a", "b")
    assert star.children("c") == ("d", "e")


@pytest.mark.parametrize(
    "parents, message",
    [
        ({}, "parents must name operators; got none"),
        ({"a": ("b",)}, "parents of 'a' must come before it; got b"),
        ({"b": ("a",), "a": ()}, "parents of 'b' must come before it; got a"),
        ({"a": ("a",)}, "parents of 'a' must come before it; got a"),
        ({"a": (), "b": ("a", "x", "y")}, "parents of 'b' must come before it; got x, y"),
    ],
)
def test_topologies_that_are_none(parents, message):
    with pytest.raises(PenstockError) as caught:
        Topology(parents)
    assert str(caught.value) == message


def test_a_chain_needs_names_that_differ():
    with pytest.raises(PenstockError):
        Topology.linear()
    with pytest.raises(PenstockError):
        Topology.linear("a", "b", "a")


def test_a_parent_is_named_once():
    with pytest.raises(PenstockError, match="each once"):
        Topology({"a": (), "b": ("a", "a")})


def test_parents_are_no_string():
    with pytest.raises(PenstockError, match="must be names"):
        Topology({"a": (), "b": "a"})


# What was seen.


def test_means_of_what_was_seen():
    seen = observed([10, 20, 30], processed=[10, 0, 30], cost_ms=[4, NAN, 8], selectivity=0.5)
    assert seen.mean_cost_ms == pytest.approx((10 * 4 + 30 * 8) / 40)
    assert seen.selectivity == 0.5
    assert seen.last(1).mean_cost_ms == 8
    assert seen.last(2).received.tolist() == [20, 30]
    assert seen.last(99).received.tolist() == [10, 20, 30]


def test_before_anything_is_done():
    seen = observed([10, 20], processed=[0, 0], cost_ms=NAN)
    assert np.isnan(seen.mean_cost_ms)
    assert seen.selectivity == 1


def test_a_history_is_as_long_as_the_shortest():
    history = History(10.0, {"a": observed([1, 2, 3]), "b": observed([1, 2])})
    assert history.periods == 2
    assert History(10.0, {}).periods == 0
    with pytest.raises(PenstockError, match=r"^period_s must be > 0; got 0$"):
        History(0, {})


# Demands.


def test_demands_of_a_chain():
    chain = Topology.linear("a", "b", "c")
    seen = {"a": observed([10], selectivity=3), "b": observed([30], selectivity=0.1)}
    history = History(10.0, seen | {"c": observed([3])})
    assert demands(chain, history, {"a": 50.0}) == pytest.approx({"a": 50, "b": 150, "c": 15})


def test_demands_of_a_diamond():
    diamond = Topology({"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")})
    shares = {"a": 2.0, "b": 0.5, "c": 0.25, "d": 1.0}
    history = History(10.0, {n: observed([8], selectivity=s) for n, s in shares.items()})
    found = demands(diamond, history, {"a": 10.0})
    assert found == pytest.approx({"a": 10, "b": 20, "c": 20, "d": 15})


def test_demands_of_a_star():
    star = Topology({"a": (), "b": (), "c": ("a", "b"), "d": ("c",), "e": ("c",)})
    shares = {"a": 1.0, "b": 3.0, "c": 0.5, "d": 1.0, "e": 1.0}
    history = History(10.0, {n: observed([8], selectivity=s) for n, s in shares.items()})
    found = demands(star, history, {"a": 10.0, "b": 20.0})
    assert found == pytest.approx({"a": 10, "b": 20, "c": 70, "d": 35, "e": 35})


def test_demands_are_not_clamped_by_what_is_done_now():
    slow = observed([900], 1, processed=[100])
    history = History(10.0, {"parse": slow, "sink": observed([100], 1)})
    assert demands(CHAIN, history, {"parse": 90.0}) == {"parse": 90, "sink": 90}


# What all scalers do.


def test_wishes_are_kept_within_limits():
    found = plan(Wanting({"sink": 100}), sink=observed([1]))
    assert found.degrees == {"sink": 8}
    assert found.reason == "sink: because, 4 -> 8"
    assert plan(Wanting({"sink": -3}, min_degree=2), sink=observed([1])).degrees == {"sink": 2}


def test_operators_without_a_wish_keep_their_degree_but_for_limits():
    operators = {"parse": observed([1], 3), "sink": observed([1], 9)}
    found = plan(Wanting({}), CHAIN, **operators)
    assert found.degrees == {"parse": 3, "sink": 8}
    assert found.reasons == {"sink": "sink: limits, 9 -> 8"}


def test_reasons_are_of_what_changes():
    found = plan(Wanting({"parse": 2, "sink": 4}), CHAIN, parse=observed([1]), sink=observed([1]))
    assert found.reason == "parse: because, 4 -> 2"
    same = plan(Wanting({"sink": 4}), sink=observed([1]))
    assert same.reason == "nothing to change"
    assert not same.reasons


@pytest.mark.parametrize("scaler", ALL, ids=lambda one: one.name)
def test_nothing_is_decided_before_a_period_was_seen(scaler):
    found = plan(scaler, sink=observed([], 3))
    assert found.degrees == {"sink": 3}
    assert found.reason == "nothing to change"


@pytest.mark.parametrize("scaler", ALL[1:], ids=lambda one: one.name)
def test_an_operator_that_has_never_worked_is_not_removed_from_nor_added_to(scaler):
    waiting = observed([50, 50, 50], 3, processed=[0, 0, 0], cost_ms=NAN, pending=150.0)
    assert plan(scaler, sink=waiting).degrees == {"sink": 3}


@pytest.mark.parametrize(
    "scaler",
    [Threshold(), RateBased(), Preventive(), PreventiveAsPublished()],
    ids=repr,
)
def test_records_that_cost_nothing_need_one_instance(scaler):
    assert degree(scaler, [400] * 8, now=2, cost_ms=0.0) == 1


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(ALL),
    st.lists(st.floats(0, 1e7), min_size=1, max_size=20),
    st.integers(1, 20),
    st.floats(0, 1e7),
    st.floats(0.01, 1e4),
    st.integers(0, 9),
)
def test_any_history_gives_a_plan_within_limits(scaler, received, now, pending, cost_ms, unchanged):
    seen = observed(received, now, cost_ms=cost_ms, pending=pending, unchanged=unchanged)
    found = plan(scaler.clone(min_degree=2, max_degree=6), sink=seen)
    assert 2 <= found.degrees["sink"] <= 6
    assert set(found.reasons) == ({"sink"} if found.degrees["sink"] != now else set())


# Fixed.


def test_fixed_gives_what_it_is_told_and_the_minimum_to_the_rest():
    operators = {"parse": observed([1e6], 5), "sink": observed([0], 5)}
    found = plan(Fixed({"sink": 8}), CHAIN, **operators)
    assert found.degrees == {"parse": 1, "sink": 8}
    assert found.reason == "parse: fixed, 5 -> 1; sink: fixed, 5 -> 8"
    assert plan(Fixed(min_degree=3), CHAIN, **operators).degrees == {"parse": 3, "sink": 3}


# Threshold: 400 records of 100 ms keep four instances busy for 10 s.


@pytest.mark.parametrize(
    "processed, pending, expected, reason",
    [
        (330, 0, 5, "sink: busy for 82% of the time, 4 -> 5"),
        (320, 0, 4, "nothing to change"),
        (200, 0, 4, "nothing to change"),
        (120, 0, 4, "nothing to change"),
        (100, 0, 3, "sink: busy for 25% of the time only, 4 -> 3"),
        (100, 4, 3, "sink: busy for 25% of the time only, 4 -> 3"),
        (100, 5, 4, "nothing to change"),  # there is work
        (0, 0, 3, "sink: busy for 0% of the time only, 4 -> 3"),
        (400, 9_999, 5, "sink: busy for 100% of the time, 4 -> 5"),
    ],
)
def test_threshold_by_hand(processed, pending, expected, reason):
    found = plan(Threshold(), sink=observed([999, processed], pending=pending))
    assert found.degrees == {"sink": expected}
    assert found.reason == reason


def test_threshold_has_limits():
    assert plan(Threshold(), sink=observed([0], 1)).reason == "nothing to change"
    assert degree(Threshold(), [800], now=8) == 8


# Rate-based: an instance does 10 records of 100 ms in a second.


def test_rate_based_by_hand():
    found = plan(RateBased(), sink=observed([999, 400, 400]))
    assert found.degrees == {"sink": 5}  # 4 / 0.9
    reason = "sink: 40 records/s and a backlog of 0 against 10 records/s an instance, 4 -> 5"
    assert found.reason == reason


def test_rate_based_needs_no_more_than_fit_exactly():
    assert degree(RateBased(utilization=1), [400, 400]) == 4
    assert degree(RateBased(utilization=0.8), [400, 400]) == 5


def test_rate_based_works_a_backlog_off():
    # 200 records that wait, apart from those in service, are 10 a second more.
    assert degree(RateBased(), [400, 400], pending=204) == 6
    assert degree(RateBased(catch_up_s=100), [400, 400], pending=204) == 5


def test_rate_based_removes_instances_when_fewer_were_enough_for_a_while():
    series = [400, 400, 100, 100]
    assert degree(RateBased(stable=1), series, now=6) == 2
    assert degree(RateBased(stable=2), series, now=6) == 3
    assert degree(RateBased(stable=3), series, now=6) == 5
    assert degree(RateBased(stable=3), series, now=4) == 4  # no reason to add any
    assert degree(RateBased(stable=3), [*series, 100, 100], now=6) == 2


def test_rate_based_plans_all_operators_at_once():
    slow = observed([400, 400], 1, processed=[100, 100], selectivity=0.5)
    found = plan(RateBased(), CHAIN, parse=slow, sink=observed([50, 50], 1))
    assert found.degrees == {"parse": 5, "sink": 3}


def test_rate_based_falls_back_on_older_costs():
    seen = observed([400] * 4, processed=[400, 400, 0, 0], cost_ms=[100, 100, NAN, NAN])
    assert plan(RateBased(), sink=seen).degrees == {"sink": 5}


# Preventive: the same instances.


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


def closed_loop(scaler, received, now):
    """Degrees over time, if plans take effect at once and everything is done."""
    found = [now]
    for periods in range(1, len(received) + 1):
        found.append(degree(scaler, received[:periods], found[-1]))
    return np.array(found)


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


@settings(deadline=None, max_examples=40)
@given(st.floats(1, 75), st.integers(1, 8))
def test_a_constant_load_comes_to_rest(per_s, now):
    for scaler in (RateBased(), Preventive()):
        degrees = closed_loop(scaler, np.full(12, 10 * per_s), now)
        assert len(set(degrees[4:])) == 1
    degrees = closed_loop(Threshold(), np.full(20, 10 * per_s), now)
    assert len(set(degrees[8:])) == 1


# As published: four instances can do 2,400 records of 100 ms in a window of 6 periods.


@pytest.mark.parametrize(
    "start, slope, expected, reason",
    [
        # Low: 345, and 222 of which there will be more.
        (100, -5, 1, "sink: low, activity 0.14, capacity 2400 records a window, 4 -> 1"),
        (20, 2, 4, "nothing to change"),
        # Medium: 1,110 and 1,290.
        (100, 10, 4, "nothing to change"),
        (300, -10, 4, "nothing to change"),
        # High: 2,010 and 2,043.
        (250, 10, 5, "sink: high and rising, activity 0.84, capacity 2400 records a window"),
        (400, -7, 4, "nothing to change"),
        # Critical: 2,820, 2,580 and 4,680.
        (300, 20, 5, "sink: critical, activity 1.18, capacity 2400 records a window, 4 -> 5"),
        (600, -20, 5, "sink: critical, activity 1.07, capacity 2400 records a window, 4 -> 5"),
        (610, 20, 8, "sink: critical, activity 1.95, capacity 2400 records a window, 4 -> 8"),
    ],
)
def test_table_1(start, slope, expected, reason):
    found = plan(PreventiveAsPublished(), sink=observed(line(start, slope)))
    assert found.degrees == {"sink": expected}
    assert found.reason.startswith(reason)


@pytest.mark.parametrize(
    "pending, expected",
    [
        (0, 4),  # 1,290 of 2,400
        (1_100, 4),  # 2,390: high, but falling
        (1_120, 5),  # 2,410
        (2_300, 6),  # 3,590
        (2_320, 7),  # 3,610
        (99_999, 8),
    ],
)
def test_equation_11_with_what_is_pending(pending, expected):
    assert degree(PreventiveAsPublished(), line(300, -10), pending=pending) == expected


@pytest.mark.parametrize("start, expected", [(100, 1), (150, 2), (160, 4)])
def test_equation_11_removes_what_is_not_needed(start, expected):
    # 345, 645 and 705 + 60 records.
    pending = 60 if start == 160 else 0
    assert degree(PreventiveAsPublished(), line(start, -5), pending=pending) == expected


def test_the_window_is_all_that_is_looked_at():
    assert degree(PreventiveAsPublished(), [9_999, *line(300, -10)]) == 4
    # Two periods: 300 and 290, so 280 and 270 of 800.
    assert degree(PreventiveAsPublished(window=2), [9_999, 300, 290]) == 4
    assert degree(PreventiveAsPublished(window=2), [9_999, 300]) == 1


def test_levels_are_parameters():
    rising = line(100, 10)  # 46%
    assert degree(PreventiveAsPublished(low=0.1, high=0.4), rising) == 5
    falling = line(300, -10)  # 54%
    assert degree(PreventiveAsPublished(low=0.6), falling) == 3


def test_one_period_makes_no_line():
    assert degree(PreventiveAsPublished(), [9_999]) == 4


def test_a_constant_load_is_not_rising():
    rates = range(330, 400, 10)
    assert {rate: degree(PreventiveAsPublished(), [rate] * 6) for rate in rates} == dict.fromkeys(
        rates, 4
    )


def test_equation_11_gives_no_more_than_fit_exactly():
    rates = range(100, 900, 100)
    found = {rate: degree(PreventiveAsPublished(), [rate] * 6, now=1) for rate in rates}
    assert found == {rate: rate // 100 for rate in rates}


@pytest.mark.parametrize("unchanged, expected", [(1, 4), (5, 4), (6, 8), (7, 8)])
def test_in_the_grace_period_nothing_changes(unchanged, expected):
    assert degree(PreventiveAsPublished(), line(600, 20), unchanged=unchanged) == expected


def test_grace_holds_in_both_directions_and_for_each_operator():
    calm = observed(line(100, -5), unchanged=2)
    busy = observed(line(600, 20), unchanged=9)
    assert plan(PreventiveAsPublished(), sink=calm).degrees == {"sink": 4}
    assert plan(PreventiveAsPublished(grace=0), sink=calm).degrees == {"sink": 1}
    found = plan(PreventiveAsPublished(), CHAIN, parse=busy, sink=calm)
    assert found.degrees == {"parse": 8, "sink": 4}


def test_grace_can_be_longer_than_the_window():
    scaler = PreventiveAsPublished(window=2, grace=6)
    assert degree(scaler, line(600, 20), unchanged=3) == 4


@pytest.mark.parametrize("combine, expected", [("max", 8), ("min", 2)])
def test_a_critical_parents_output_is_combined_with_the_childs_estimate(combine, expected):
    # The parent can send 2,400 of 4,800; the child expects 1,158 and can do 4,800.
    parse = observed([800] * 6, processed=[400] * 6)
    sink = observed(line(210, -2), 8)
    found = plan(PreventiveAsPublished(combine=combine), CHAIN, parse=parse, sink=sink)
    assert found.degrees == {"parse": 8, "sink": expected}


@pytest.mark.parametrize("combine, expected", [("max", 8), ("min", 4)])
def test_a_critical_parents_output_has_a_selectivity(combine, expected):
    # Twice 2,400 come to four instances.
    parse = observed([800] * 6, processed=[400] * 6, selectivity=2)
    sink = observed(line(300, -10))
    found = plan(PreventiveAsPublished(combine=combine), CHAIN, parse=parse, sink=sink)
    assert found.degrees["sink"] == expected


@pytest.mark.parametrize("combine", ["max", "min"])
def test_other_parents_are_not_combined(combine):
    parse = observed(line(300, -10), selectivity=10)
    sink = observed(line(300, -10))
    found = plan(PreventiveAsPublished(combine=combine), CHAIN, parse=parse, sink=sink)
    assert found.degrees == {"parse": 4, "sink": 4}


def test_one_critical_parent_is_enough_and_all_outputs_count():
    join = Topology({"left": (), "right": (), "join": ("left", "right")})
    operators = {
        "left": observed([800] * 6, processed=[400] * 6),  # 2,400 go out
        "right": observed(line(300, -10)),  # 1,290 go out
        "join": observed(line(300, -10)),
    }
    assert plan(PreventiveAsPublished(), join, **operators).degrees["join"] == 7
    few = plan(PreventiveAsPublished(combine="min"), join, **operators)
    assert few.degrees["join"] == 4


# Bad input.


@pytest.mark.parametrize("cls", [type(one) for one in ALL])
@pytest.mark.parametrize(
    "params, message",
    [
        ({"min_degree": 5, "max_degree": 4}, "max_degree must be >= min_degree = 5; got 4"),
        ({"min_degree": 0}, "min_degree must be >= 1; got 0"),
        ({"max_degree": -1}, "max_degree must be >= 1; got -1"),
        ({"max_degree": 2.5}, "max_degree must be a whole number; got 2.5"),
        ({"max_degree": NAN}, "max_degree must be a whole number; got nan"),
    ],
)
def test_bad_limits(cls, params, message):
    with pytest.raises(PenstockError) as caught:
        cls(**params)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "cls, params, message",
    [
        (Fixed, {"degrees": {"sink": 0}}, "degrees of sink must be >= 1; got 0"),
        (Threshold, {"high": 1}, "high must be in (0, 1); got 1"),
        (Threshold, {"low": 0.8}, "low must be in [0, 0.8); got 0.8"),
        (Threshold, {"low": -0.1}, "low must be in [0, 0.8); got -0.1"),
        (Threshold, {"high": NAN}, "high must be finite; got nan"),
        (RateBased, {"utilization": 0}, "utilization must be in (0, 1]; got 0"),
        (RateBased, {"utilization": 1.1}, "utilization must be in (0, 1]; got 1.1"),
        (RateBased, {"window": 0}, "window must be >= 1; got 0"),
        (RateBased, {"catch_up_s": 0}, "catch_up_s must be > 0; got 0"),
        (RateBased, {"catch_up_s": NAN}, "catch_up_s must be finite; got nan"),
        (RateBased, {"stable": 0}, "stable must be >= 1; got 0"),
        (Preventive, {"utilization": 0}, "utilization must be in (0, 1]; got 0"),
        (Preventive, {"utilization": 1.01}, "utilization must be in (0, 1]; got 1.01"),
        (Preventive, {"utilization": NAN}, "utilization must be finite; got nan"),
        (Preventive, {"window": 1}, "window must be >= 2; got 1"),
        (Preventive, {"horizon": 0}, "horizon must be >= 1; got 0"),
        (Preventive, {"hold": 0}, "hold must be >= 1; got 0"),
        (Preventive, {"slack": -0.1}, "slack must be >= 0; got -0.1"),
        (Preventive, {"quantile": 1.5}, "quantile must be in [0, 1]; got 1.5"),
        (Preventive, {"drain_s": -5}, "drain_s must be > 0; got -5"),
        (PreventiveAsPublished, {"combine": "mx"}, "unknown combine 'mx'; did you mean 'max'?"),
        (PreventiveAsPublished, {"combine": 3}, "unknown combine 3; choose one of max, min"),
        (PreventiveAsPublished, {"window": 1}, "window must be >= 2; got 1"),
        (PreventiveAsPublished, {"low": 0.9}, "low must be in [0, 0.8); got 0.9"),
        (PreventiveAsPublished, {"high": 1.0}, "high must be in (0, 1); got 1"),
        (PreventiveAsPublished, {"high": NAN}, "high must be finite; got nan"),
        (PreventiveAsPublished, {"grace": -1}, "grace must be >= 0; got -1"),
    ],
)
def test_bad_parameters(cls, params, message):
    with pytest.raises(PenstockError) as caught:
        cls(**params)
    assert str(caught.value) == message


@pytest.mark.parametrize("scaler", ALL, ids=lambda one: one.name)
def test_a_history_must_have_every_operator(scaler):
    with pytest.raises(PenstockError, match="sink"):
        plan(scaler, CHAIN, parse=observed([1, 2]))


def test_fixed_degrees_of_an_operator_that_is_not_there():
    with pytest.raises(PenstockError, match="snik"):
        plan(Fixed({"snik": 8}), sink=observed([1, 2]))


def test_scalers_by_name():
    names = {"fixed", "threshold", "rate_based", "preventive", "preventive_as_published"}
    assert set(Scaler.registered()) == names
    assert Scaler.named("preventive", hold=2) == Preventive(hold=2)
    assert Preventive.as_published(grace=0) == PreventiveAsPublished(grace=0)
    with pytest.raises(PenstockError, match="did you mean 'window'"):
        Scaler.named("preventive", windw=3)
