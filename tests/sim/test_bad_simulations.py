"""Bad input of the simulator gets one line with the parameter, the value and the way out."""

import math

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import Grouping, RoundRobin
from penstock.policies.scaling import Fixed, Scaler, Topology
from penstock.policies.shedding import Never
from penstock.sim import Node, Stream, simulate, simulate_graph

STREAM = Stream.of(np.arange(20) % 5, np.ones(20)).every(1.0)
SINK = Topology.linear("sink")
NODES = {"sink": Node(1.0)}
SLOWDOWNS = (
    "slowdowns must be pairs of a record's number and slowdowns, such as [(100, [1.0, 2.0])]"
)


def graph(scaler=None, topology=SINK, nodes=NODES, **options):
    scaler = Fixed() if scaler is None else scaler
    return simulate_graph(scaler, topology, nodes, rate_per_s=np.ones(60), **options)


@pytest.mark.parametrize(
    "action, message",
    [
        (
            lambda: simulate("posg", STREAM),
            "grouping must be a Grouping, such as RoundRobin(instances=2); got 'posg'",
        ),
        (
            lambda: simulate(RoundRobin, STREAM),
            "grouping must be a Grouping, such as RoundRobin(instances=2); got <class "
            "'penstock.policies.grouping.round_robin.RoundRobin'>",
        ),
        (
            lambda: simulate(RoundRobin(2), [1, 2]),
            "stream must be a Stream, such as Stream.of(keys, costs_ms); got [1, 2]",
        ),
        (
            lambda: simulate(RoundRobin(1), STREAM, shedder="las"),
            "shedder must be a Shedder, such as LoadAware(average('20 ms')); got 'las'",
        ),
        (lambda: simulate(RoundRobin(2), STREAM, slowdowns=None), f"{SLOWDOWNS}; got None"),
        (lambda: simulate(RoundRobin(2), STREAM, slowdowns=5), f"{SLOWDOWNS}; got 5"),
        (lambda: simulate(RoundRobin(2), STREAM, slowdowns=[(0,)]), f"{SLOWDOWNS}; got [(0,)]"),
        (
            lambda: simulate(RoundRobin(2), STREAM, slot_ms=1e-9),
            "slot_ms must be >= 1.9e-05, a millionth of the stream; got 1e-09",
        ),
        (
            lambda: simulate(RoundRobin(2), STREAM, protected=[True] * 3, sources=2),
            "protected must be None without a shedder, as no record is dropped",
        ),
        (
            lambda: simulate(RoundRobin(1), STREAM, protected=["no"] * 20, shedder=Never()),
            "protected must be True or False; got 'no'",
        ),
        (
            lambda: graph(scaler="preventive"),
            "scaler must be a Scaler, such as Preventive(); got 'preventive'",
        ),
        (lambda: graph(topology=None), "topology must be a Topology; got None"),
        (
            lambda: graph(nodes=None),
            "nodes must be a Mapping, such as {'sink': Node(80.0)}; got None",
        ),
        (lambda: graph(nodes={"sink": 80.0}), "nodes: 'sink' must be a Node; got 80.0"),
        (
            lambda: graph(period_s=0.25),
            "period_s must be a multiple of 0.1, the length of a step; got 0.25",
        ),
        (lambda: simulate(RoundRobin(2), STREAM).queues(-1), "slots must be >= 1; got -1"),
        (
            lambda: simulate(RoundRobin(2), STREAM).queues(None),
            "slots must be a whole number; got None",
        ),
        (lambda: graph().latency_quantile_s(2), "quantile must be in [0, 1]; got 2"),
        (lambda: graph().latency_quantile_s(math.nan), "quantile must be finite; got nan"),
    ],
)
def test_bad_input_is_refused_in_one_line(action, message):
    with pytest.raises(PenstockError) as caught:
        action()
    assert str(caught.value) == message


class Rates(Scaler):
    """Keeps the rates that it sees."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def wanted(self, topology, history):
        self.seen.append(history.operators["sink"].received[-1] / history.period_s)
        return {}


@pytest.mark.parametrize("period_s", [0.1, 0.3, 0.7, 2.5, 10.0])
def test_scalers_see_the_true_rate_in_periods_of_any_length(period_s):
    rates = Rates()
    graph(scaler=rates, period_s=period_s)
    assert rates.seen == pytest.approx(np.ones(len(rates.seen)))
    assert rates.seen


# What a grouping of a user returns.


class Own(Grouping):
    """Returns what it was told to."""

    def __init__(self, instances, found):
        super().__init__(instances)
        self.found = found

    def route(self, keys, now_ms=None):
        return self.found(len(keys))


class Telltale:
    """Answers after every record."""

    state = "LISTENING"

    def execute(self, keys, costs_ms, finished_ms, request=None):
        return [Feedback(0, delta_ms=0.0)]


class Measured(Own):
    """The same, with a tracker: records are routed one by one."""

    def tracker(self, instance):
        return Telltale()


FOUND = {
    "list": (lambda n: [0] * n, "a value of type list"),
    "nothing": (lambda n: None, "a value of type NoneType"),
    "text": (lambda n: "0" * n, "a value of type str"),
    "table": (lambda n: np.zeros((n, 1), dtype=np.int32), "dtype int32 and shape ({}, 1)"),
    "numbers": (np.zeros, "dtype float64 and shape ({},)"),
    "booleans": (lambda n: np.zeros(n, dtype=np.bool_), "dtype bool and shape ({},)"),
    "none": (lambda n: np.zeros(0, dtype=np.int32), "dtype int32 and shape (0,)"),
    "too many": (lambda n: np.zeros(n + 1, dtype=np.int32), "dtype int32 and shape"),
}


@pytest.mark.parametrize("found", FOUND)
@pytest.mark.parametrize(
    "cls, options, records",
    [(Own, {}, 20), (Own, {"sources": 2}, 10), (Own, {"slot_ms": 100.0}, 20), (Measured, {}, 1)],
)
def test_a_grouping_that_returns_something_else(cls, options, records, found):
    returned, got = FOUND[found]
    with pytest.raises(PenstockError) as caught:
        simulate(cls(3, returned), STREAM, **options)
    assert str(caught.value).startswith(
        f"{cls.__name__}.route must return an int32 array with one instance for each of {records} "
        f"records; got {got.format(records)}"
    )


def test_one_instance_for_many_records_is_refused():
    with pytest.raises(PenstockError, match=r"each of 20 records; got dtype int32 and shape"):
        simulate(Own(3, lambda n: np.zeros(1, dtype=np.int32)), STREAM)


@pytest.mark.parametrize("instance", [-1, 3])
@pytest.mark.parametrize("cls", [Own, Measured])
def test_instances_that_do_not_exist_are_refused(cls, instance):
    outside = cls(3, lambda n: np.full(n, instance, dtype=np.int32))
    with pytest.raises(PenstockError) as caught:
        simulate(outside, STREAM)
    message = f"{cls.__name__}.route must return instances from 0 to 2; got {instance}"
    assert str(caught.value) == message


def test_whole_numbers_of_another_width_are_taken():
    result = simulate(Own(3, lambda n: np.full(n, 2, dtype=np.int64)), STREAM)
    assert (result.instances == 2).all()
