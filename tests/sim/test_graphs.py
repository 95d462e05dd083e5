"""The engine for graphs: nothing is lost, and latencies by hand."""

from dataclasses import fields

import numpy as np
import pytest
from graph_runs import CHAIN, NEVER_S, STAR, Watching, one
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.policies.scaling import Fixed, Preventive, RateBased, Threshold, Topology
from penstock.sim import GraphResult, Node, flow, graphs, simulate_graph

DIAMOND = Topology(
    {"split": (), "left": ("split",), "right": ("split",), "join": ("left", "right")}
)


# Nothing is lost.


@st.composite
def any_graph(draw):
    """A topology of up to five operators, with costs, selectivities and degrees."""
    names = "abcde"[: draw(st.integers(1, 5))]
    parents = {
        name: tuple(p for p in names[:i] if draw(st.booleans())) for i, name in enumerate(names)
    }
    nodes = {
        name: Node(
            draw(st.sampled_from([2.0, 35.0, 100.0, 400.0])),
            draw(st.sampled_from([0.25, 1.0, 2.0])),
            draw(st.integers(1, 4)),
        )
        for name in names
    }
    return Topology(parents), nodes


def reach(topology, nodes):
    """Records at each operator for one at each source."""
    found = {}
    for name, parents in topology.parents.items():
        found[name] = sum(found[p] * nodes[p].selectivity for p in parents) if parents else 1.0
    return found


def sinks(topology):
    return [name for name in topology.parents if not topology.children(name)]


RATES = st.lists(st.floats(0, 60), min_size=8, max_size=25).map(np.array)


@settings(deadline=None, max_examples=60)
@given(
    any_graph(),
    RATES,
    st.floats(0, 3, exclude_max=True),
    st.sampled_from([0.0, 0.7, 4.0]),
    st.sampled_from([0, 2.5]),
)
def test_everything_is_done_or_pending(graph, rates, phase_s, delay_s, pause_s):
    topology, nodes = graph
    changes = {2: dict.fromkeys(nodes, 2), 4: dict.fromkeys(nodes, 1)}
    watching = Watching(changes)
    options = {"phase_s": phase_s, "delay_s": delay_s, "pause_s": pause_s, "timeout_s": NEVER_S}
    simulate_graph(watching, topology, nodes, rate_per_s=rates, period_s=3.0, **options)
    before = watching.histories[:1]
    for history in watching.histories:
        for name, parents in topology.parents.items():
            seen = history.operators[name]
            assert seen.pending >= 0
            np.testing.assert_allclose(seen.emitted, nodes[name].selectivity * seen.processed)
            done = seen.processed > 0
            np.testing.assert_allclose(seen.cost_ms[done], nodes[name].cost_ms)
            assert np.isnan(seen.cost_ms[~done]).all()
            if parents:
                came = sum(history.operators[p].emitted for p in parents)
                np.testing.assert_allclose(seen.received, came, atol=1e-6)
            # Since the last plan (records of a first, shorter period are not reported).
            last = before[-1].operators[name]
            if seen.received.size > last.received.size:
                came, done = seen.received[-1], seen.processed[-1]
                assert seen.pending == pytest.approx(last.pending + came - done, abs=1e-6)
        before.append(history)


@settings(deadline=None, max_examples=60)
@given(any_graph(), RATES)
def test_what_arrives_comes_to_the_end(graph, rates):
    topology, nodes = graph
    expected = reach(topology, nodes)
    # Time to do all of it, one operator after the other.
    needed_s = sum(rates.sum() * expected[n] * nodes[n].cost_ms / 1000 for n in nodes) + 3
    stream = np.concatenate([rates, np.zeros(int(needed_s) + 1)])
    given_degrees = Fixed({name: node.degree for name, node in nodes.items()})
    result = simulate_graph(given_degrees, topology, nodes, rate_per_s=stream, timeout_s=NEVER_S)
    wanted = rates.sum() * sum(expected[name] for name in sinks(topology))
    assert result.amounts.sum() == pytest.approx(wanted, abs=1e-6)
    assert result.timed_out == 0
    assert (result.latencies_s > 0).all()


@settings(deadline=None, max_examples=30)
@given(any_graph(), RATES)
def test_no_more_is_done_than_instances_can_do(graph, rates):
    topology, nodes = graph
    watching = Watching()
    simulate_graph(watching, topology, nodes, rate_per_s=rates, period_s=2.0, timeout_s=NEVER_S)
    for name, seen in watching.histories[-1].operators.items():
        capacity = nodes[name].degree * 2.0 * 1000 / nodes[name].cost_ms
        assert (seen.processed <= capacity * (1 + 1e-9)).all()
        # While records wait, no instance is idle. Those that wait now came in the last period, or
        # have waited all through it.
        if seen.received.size and seen.pending > seen.received[-1] + 1e-6:
            assert seen.processed[-1] == pytest.approx(capacity)


@settings(deadline=None, max_examples=25)
@given(any_graph(), RATES, st.sampled_from([0.5, 3.0, 30.0]))
def test_only_replays_are_done_twice(graph, rates, timeout_s):
    topology, nodes = graph
    given_degrees = Fixed({name: node.degree for name, node in nodes.items()})
    result = simulate_graph(given_degrees, topology, nodes, rate_per_s=rates, timeout_s=timeout_s)
    most = (rates.sum() + result.timed_out) * sum(
        reach(topology, nodes)[n] for n in sinks(topology)
    )
    assert result.timed_out >= 0
    assert result.amounts.sum() <= most * (1 + 1e-9) + 1e-6


def test_there_is_room_for_all_pieces_on_all_ways(monkeypatch):
    for name in ("flow", "_enter", "_work", "_push", "_pop", "_timed_out"):
        kernel = getattr(flow, name)
        monkeypatch.setattr(flow, name, getattr(kernel, "py_func", kernel))
    monkeypatch.setattr(graphs, "flow", flow.flow)
    names = [f"operator {i}" for i in range(8)]
    # 64 ways to the last one, which all that has waited for 45 s takes in one step.
    topology = Topology({name: tuple(names[:i]) for i, name in enumerate(names)})
    nodes = dict.fromkeys(names, Node(0.001))
    result = simulate_graph(
        Fixed({names[0]: 2}),
        topology,
        nodes,
        rate_per_s=np.ones(70),
        pause_s=45.0,
        timeout_s=NEVER_S,
    )
    assert result.amounts.sum() == pytest.approx(64 * 70)


@pytest.mark.parametrize("slow", ["left", "right"])
def test_a_record_is_done_when_all_sinks_are_done_with_it(slow):
    fan = Topology({"source": (), "left": ("source",), "right": ("source",)})
    nodes = {name: Node(1_000.0 if name == slow else 1.0) for name in fan.parents}
    result = simulate_graph(Fixed(), fan, nodes, rate_per_s=np.full(30, 5.0), timeout_s=5.0)
    # One record a second is done in time at the slow sink, and four wait ever longer.
    assert result.timed_out > 50
    calm = simulate_graph(
        Fixed(), fan, dict.fromkeys(nodes, Node(1.0)), rate_per_s=np.full(30, 5.0), timeout_s=5.0
    )
    assert calm.timed_out == 0


# Latencies.


def test_of_an_underloaded_chain_the_latency_is_the_sum_of_costs():
    chain = Topology.linear("a", "b", "c")
    nodes = {"a": Node(2.0), "b": Node(30.0), "c": Node(80.0, degree=2)}
    result = simulate_graph(Fixed({"c": 2}), chain, nodes, rate_per_s=np.full(60, 20.0))
    np.testing.assert_allclose(result.latencies_s, 0.112)
    assert result.mean_latency_s == pytest.approx(0.112)
    assert result.latency_quantile_s(0.99) == pytest.approx(0.112)
    np.testing.assert_allclose(result.latency_s, 0.112)
    np.testing.assert_allclose(result.rate_per_s, 20.0)
    assert result.timed_out == 0


def test_of_a_diamond_the_longest_way_counts():
    nodes = {"split": Node(1.0), "left": Node(5.0), "right": Node(20.0), "join": Node(10.0)}
    result = simulate_graph(Fixed(), DIAMOND, nodes, rate_per_s=np.full(30, 10.0))
    np.testing.assert_allclose(result.latencies_s, 0.031)
    assert result.amounts.sum() == pytest.approx(2 * 300)


def test_of_a_star_every_sink_has_its_own():
    nodes = {n: Node(1.0) for n in STAR.parents} | {"b": Node(50.0)}
    result = simulate_graph(Fixed(), STAR, nodes, rate_per_s=np.full(30, 5.0))
    assert sorted(set(result.latencies_s.round(9))) == [0.003, 0.052]
    assert result.amounts.sum() == pytest.approx(4 * 150)  # two sources, two sinks


def test_selectivities_multiply():
    chain = Topology.linear("a", "b", "c")
    nodes = {"a": Node(1.0, 3.0), "b": Node(1.0, 0.5), "c": Node(1.0)}
    result = simulate_graph(Fixed(), chain, nodes, rate_per_s=np.full(20, 10.0))
    assert result.amounts.sum() == pytest.approx(200 * 1.5)


@pytest.mark.parametrize("per_s", [12.0, 15.0, 30.0])
def test_an_overloaded_operator_is_a_fluid_queue(per_s):
    watching = Watching()
    result = one(watching, np.full(60, per_s), timeout_s=NEVER_S)
    at_s = 10.0 * np.arange(1, 6)
    pending = [history.operators["sink"].pending for history in watching.histories]
    np.testing.assert_allclose(pending, (per_s - 10) * at_s)
    assert result.amounts.sum() == pytest.approx(10 * 60)
    # What is done at 60 s came when 600 records had come.
    assert result.latencies_s[-1] == pytest.approx(60 - 600 / per_s + 0.1, abs=0.2)
    assert result.mean_latency_s == pytest.approx((60 - 600 / per_s) / 2 + 0.1, abs=0.2)
    assert (np.diff(result.latency_s) > 0).all()


def test_behind_a_bottleneck_nothing_waits():
    watching = Watching()
    nodes = {"parse": Node(100.0), "sink": Node(100.0)}
    simulate_graph(watching, CHAIN, nodes, rate_per_s=np.full(30, 25.0), timeout_s=NEVER_S)
    seen = watching.histories[-1].operators
    assert seen["parse"].pending == pytest.approx(15 * 20)
    assert seen["sink"].pending == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(seen["sink"].received, 100)


def test_quantiles_and_the_mean_by_hand():
    values = {f.name: None for f in fields(GraphResult)}
    parts = {"latencies_s": np.array([3.0, 1.0, 2.0]), "amounts": np.array([1.0, 1.0, 2.0])}
    result = GraphResult(**values | parts)
    assert result.mean_latency_s == 2
    quantiles = [result.latency_quantile_s(q) for q in (0, 0.25, 0.26, 0.75, 0.76, 1)]
    assert quantiles == [1, 1, 2, 2, 3, 3]


def test_of_nothing_there_is_no_latency():
    result = one(Fixed(), np.zeros(20))
    assert np.isnan(result.mean_latency_s)
    assert np.isnan(result.latency_quantile_s(0.5))


@pytest.mark.parametrize("scaler", [Threshold(), RateBased(), Preventive()], ids=repr)
def test_the_same_inputs_give_the_same_result(scaler):
    nodes = {name: Node(30.0) for name in STAR.parents}
    rates = np.random.default_rng(3).uniform(0, 60, 120)
    kept = rates.copy()
    first, second = (
        simulate_graph(scaler, STAR, nodes, rate_per_s=rates, pause_s=1.0) for _ in range(2)
    )
    for field in fields(GraphResult):
        np.testing.assert_equal(getattr(first, field.name), getattr(second, field.name))
    np.testing.assert_array_equal(rates, kept)
    assert first.reconfigurations > 0
    assert len(first.reasons) == first.reconfigurations
