"""Inputs of scalers: topologies, what was seen, and demands along a graph."""

import numpy as np
import pytest
from observations import CHAIN, NAN, observed

from penstock.errors import PenstockError
from penstock.policies.scaling import History, Topology
from penstock.policies.scaling.base import demands

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
