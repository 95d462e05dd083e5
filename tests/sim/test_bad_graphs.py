"""Bad input of the engine for graphs gets one line with the parameter and the value."""

import numpy as np
import pytest
from graph_runs import ONE, one

from penstock.errors import PenstockError
from penstock.policies.scaling import Fixed
from penstock.sim import Node, graphs, simulate_graph

NAN = float("nan")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"period_s": 0}, "period_s must be > 0; got 0"),
        ({"period_s": NAN}, "period_s must be finite; got nan"),
        ({"phase_s": -1}, "phase_s must be in [0, 10); got -1"),
        ({"delay_s": -1}, "delay_s must be >= 0; got -1"),
        ({"delay_s": NAN}, "delay_s must be finite; got nan"),
        ({"pause_s": -0.5}, "pause_s must be >= 0; got -0.5"),
        ({"rate_per_s": "many"}, "rate_per_s must be numbers; got 'many'"),
        ({"rate_per_s": [[1.0, 2.0]]}, "rate_per_s must have shape (2,); got (1, 2)"),
        ({"nodes": {}}, "nodes must have every operator; sink missing"),
    ],
)
def test_bad_input(options, message):
    given = {"nodes": {"sink": Node(1.0)}, "rate_per_s": np.ones(20), **options}
    with pytest.raises(PenstockError) as caught:
        simulate_graph(Fixed(), ONE, **given)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "options",
    [
        {"rate_per_s": []},
        {"rate_per_s": [1.0, NAN]},
        {"rate_per_s": [1.0, float("inf")]},
        {"rate_per_s": [1.0, -1.0]},
        {"timeout_s": 0},
        {"timeout_s": NAN},
        {"phase_s": 25.0},
        {"period_s": 0.01},
    ],
    ids=str,
)
def test_more_bad_input(options):
    given = {"nodes": {"sink": Node(1.0)}, "rate_per_s": np.ones(20), **options}
    name = next(iter(options))
    with pytest.raises(PenstockError, match=f"^{name} must be"):
        simulate_graph(Fixed(), ONE, **given)


def test_a_negative_timeout(monkeypatch):
    monkeypatch.setattr(graphs, "flow", lambda *_: 0)  # it must not come so far
    with pytest.raises(PenstockError, match=r"^timeout_s must be > 0; got -5$"):
        one(Fixed(), np.ones(20), timeout_s=-5)


@pytest.mark.parametrize(
    "node, message",
    [
        ({"cost_ms": 0}, "cost_ms must be > 0; got 0"),
        ({"cost_ms": NAN}, "cost_ms must be finite; got nan"),
        ({"cost_ms": 1, "selectivity": -1}, "selectivity must be > 0; got -1"),
        ({"cost_ms": 1, "degree": 0}, "degree must be >= 1; got 0"),
        ({"cost_ms": 1, "degree": 1.5}, "degree must be a whole number; got 1.5"),
    ],
)
def test_bad_nodes(node, message):
    with pytest.raises(PenstockError) as caught:
        Node(**node)
    assert str(caught.value) == message
