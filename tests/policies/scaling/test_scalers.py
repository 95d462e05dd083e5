"""Scalers: limits and reasons, the simple ones by hand, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from observations import ALL, CHAIN, NAN, closed_loop, degree, observed, plan

from penstock.errors import PenstockError
from penstock.policies.scaling import (
    Fixed,
    Preventive,
    PreventiveAsPublished,
    RateBased,
    Scaler,
    Threshold,
)


class Wanting(Scaler):
    """One of the user's own: degrees as given."""

    def __init__(self, given, min_degree=1, max_degree=8):
        super().__init__(min_degree, max_degree)
        self.given = given

    def wanted(self, topology, history):
        return {name: (degree, "because") for name, degree in self.given.items()}


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


@settings(deadline=None, max_examples=40)
@given(st.floats(1, 75), st.integers(1, 8))
def test_a_constant_load_comes_to_rest(per_s, now):
    for scaler in (RateBased(), Preventive()):
        degrees = closed_loop(scaler, np.full(12, 10 * per_s), now)
        assert len(set(degrees[4:])) == 1
    degrees = closed_loop(Threshold(), np.full(20, 10 * per_s), now)
    assert len(set(degrees[8:])) == 1


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
