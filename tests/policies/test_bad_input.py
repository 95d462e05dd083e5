"""Bad input of policies gets one line with the parameter, the value and the way out."""

import numpy as np
import pytest
from refusals import INF, NAN, ONES, RAGGED, SINK, refusal, seen

from penstock.policies import grouping, shedding
from penstock.policies.costs import CountMin, Exact
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import (
    BoundedHash,
    Consistent,
    KeyHash,
    Proactive,
    ProactiveAsPublished,
    RoundRobin,
    TwoChoices,
)
from penstock.policies.placement import Cluster, LocalSearch
from penstock.policies.scaling import Fixed, History, Topology
from penstock.policies.shedding import (
    LoadAware,
    LoadAwareAsPublished,
    MeanCost,
    RandomDrop,
    average,
    sliding_average,
)

HUGE = 10**400


def cluster(**changes):
    return Cluster(**{"load": [1, 2], "placement": [0, 0], "capacity": [1, 1], **changes})


CASES = {
    # Keys and other arrays.
    "ragged keys": (
        lambda: RoundRobin(3).route(RAGGED),
        "keys must be one-dimensional; got rows of different lengths",
    ),
    "ragged keys of exact costs": (
        lambda: Exact(RAGGED, [1.0, 2.0]),
        "keys must be one-dimensional; got rows of different lengths",
    ),
    "ragged keys of a model": (
        lambda: CountMin().update(RAGGED, [1.0, 2.0]),
        "keys must be one-dimensional; got rows of different lengths",
    ),
    "ragged placement": (
        lambda: cluster(placement=RAGGED),
        "placement must be one-dimensional; got rows of different lengths",
    ),
    "ragged capacities": (
        lambda: cluster(capacity=RAGGED),
        "capacity must be numbers; got [[1], [2, 3]]",
    ),
    "ragged removals": (
        lambda: cluster(removed=RAGGED),
        "removed must be True or False for each of 2 workers; got [[1], [2, 3]]",
    ),
    "ragged protection": (
        lambda: MeanCost(average(5), 1.0).admit([1, 2], [0.0, 0.0], protected=RAGGED),
        "protected must have shape (2,); got rows of different lengths",
    ),
    "placement in numbers": (
        lambda: cluster(placement=[0.0, 1.0]),
        "placement must be whole numbers; got dtype float64",
    ),
    "no workers": (
        lambda: cluster(capacity=[]),
        "capacity must have a worker for the 2 key groups; got none",
    ),
    "no traffic": (lambda: cluster(traffic=None), "traffic must be a Traffic; got None"),
    "text as protection": (
        lambda: MeanCost(average(5), 1.0).admit([1], [0.0], protected=["no"]),
        "protected must be True or False; got 'no'",
    ),
    "NaN as protection": (
        lambda: MeanCost(average(5), 1.0).admit([1], [0.0], protected=[NAN]),
        "protected must be True or False; got nan",
    ),
    # Times that never pass.
    "routed at an infinite time": (
        lambda: Proactive(3).route([1, 2], [0.0, INF]),
        "now_ms must be finite; got inf at 1",
    ),
    "routed at no time": (
        lambda: grouping.FullKnowledge(3, Exact([1], [1.0])).route([1], [NAN]),
        "now_ms must be finite; got nan at 0",
    ),
    "decided at an infinite time": (
        lambda: LoadAware(average(5)).admit([1], [0.0], [-INF]),
        "now_ms must be finite; got -inf at 0",
    ),
    "arrived at no time": (
        lambda: LoadAware(average(5)).admit([1], [NAN]),
        "arrival_ms must be finite; got nan at 0",
    ),
    "a batch of nobody": (
        lambda: MeanCost(average(5), 1.0).begin(0, share=0),
        "share must be in (0, 1]; got 0",
    ),
    "a batch at no time": (lambda: RandomDrop(0.5).begin(NAN), "now_ms must be finite; got nan"),
    "a batch at an infinite time": (
        lambda: LoadAware(average(5)).begin(INF),
        "now_ms must be finite; got inf",
    ),
    # Numbers that are too large.
    "too many instances": (
        lambda: KeyHash(2**33),
        "instances must be <= 1000000; got 8589934592",
    ),
    "far too many instances": (
        lambda: TwoChoices(HUGE),
        "instances must be <= 1000000; got a number of more than 30 digits",
    ),
    "too many instances later": (
        lambda: RoundRobin(2).resize(2**31),
        "instances must be <= 1000000; got 2147483648",
    ),
    "too many virtual workers": (
        lambda: Consistent(3, virtual_workers=10**12),
        "virtual_workers must be <= 333333; got 1000000000000",
    ),
    "too many points": (
        lambda: BoundedHash(4, points=10**7),
        "points must be <= 1000000; got 10000000",
    ),
    "too many points later": (
        lambda: BoundedHash(4, points=10**6).resize(5),
        "instances must be <= 4; got 5",
    ),
    "a huge number": (
        lambda: BoundedHash(3, epsilon=HUGE),
        "epsilon must be <= 1e308; got a larger number",
    ),
    "a huge limit": (lambda: average(HUGE), "limit must be <= 1e308; got a larger number"),
    "a huge window": (
        lambda: ProactiveAsPublished(3, window=2**63),
        "window must be <= 9223372036854775807; got 9223372036854775808",
    ),
    "a huge window of a shedder": (
        lambda: LoadAwareAsPublished(average(5), window=2**63),
        "window must be <= 9223372036854775807; got 9223372036854775808",
    ),
    "a huge average": (
        lambda: sliding_average(1, 2**60),
        "records must be <= 1000000000000; got 1152921504606846976",
    ),
    "wide matrices": (
        lambda: CountMin(epsilon=1e-12),
        "epsilon must be larger: its matrices would have 4 x 2,718,281,828,460 cells, of at most "
        "67,108,864; got 1e-12",
    ),
    "high matrices": (
        lambda: CountMin(epsilon=2e-5, delta=5e-324),
        "epsilon must be larger: its matrices would have 1074 x 135,915 cells, of at most "
        "67,108,864; got 2e-05",
    ),
    # Objects of another kind.
    "no costs": (
        lambda: grouping.FullKnowledge(3, None),
        "costs must be a CostModel, such as Exact; got None",
    ),
    "no costs of a shedder": (
        lambda: shedding.FullKnowledge(average(5), None),
        "costs must be a CostModel, such as Exact; got None",
    ),
    "listed degrees": (
        lambda: Fixed(degrees=[1]),
        "degrees must be a Mapping, such as {'sink': 8}; got [1]",
    ),
    "degrees in text": (
        lambda: Fixed(degrees=""),
        "degrees must be a Mapping, such as {'sink': 8}; got ''",
    ),
    "no topology": (
        lambda: Topology(None),
        "parents must be a Mapping, such as {'a': (), 'b': ('a',)}; got None",
    ),
    "no parents": (
        lambda: Topology({"a": None}),
        "parents of 'a' must be names, each once, such as ('a', 'b'); got None",
    ),
    "nested parents": (
        lambda: Topology({"a": (), "b": (["a"],)}),
        "parents of 'b' must be names, each once, such as ('a', 'b'); got (['a'],)",
    ),
    "no cluster": (lambda: LocalSearch().plan(None), "cluster must be a Cluster; got None"),
    "a plan for no topology": (
        lambda: Fixed().plan(None, History(10.0, {"sink": seen()})),
        "topology must be a Topology; got None",
    ),
    "a plan for no history": (
        lambda: Fixed().plan(SINK, None),
        "history must be a History; got None",
    ),
    "a history of nothing": (
        lambda: History(10.0, {"sink": None}),
        "operators: 'sink' must be an Observed; got None",
    ),
    "a history without operators": (
        lambda: History(10.0, None),
        "operators must be a Mapping, such as {'a': Observed(...)}; got None",
    ),
    "costs of another model": (
        lambda: Exact([1], [1.0]).merge(CountMin()),
        "only exact costs can be merged; got CountMin(epsilon=0.05, delta=0.1, seed=0)",
    ),
    "a key with two costs": (
        lambda: Exact([1, 2, 2], [1.0, 2.0, 3.0]),
        "keys must be different; got 2 more than once",
    ),
    # Observations.
    "NaN records": (
        lambda: seen(received=np.array([1, NAN, 1])),
        "observed: received must be finite and >= 0; got nan at 1",
    ),
    "infinite records": (
        lambda: seen(processed=np.array([1, 1, INF])),
        "observed: processed must be finite and >= 0; got inf at 2",
    ),
    "negative records": (
        lambda: seen(emitted=-ONES),
        "observed: emitted must be finite and >= 0; got -1.0 at 0",
    ),
    "no records": (
        lambda: seen(received=None),
        "observed: received must have a number for each period; got None",
    ),
    "too few periods": (
        lambda: seen(received=np.ones(2)),
        "observed: processed must have shape (2,); got (3,)",
    ),
    "infinite cost": (
        lambda: seen(cost_ms=np.array([1, INF, 1])),
        "observed: cost_ms must be finite and >= 0, or NaN if no record was processed; "
        "got inf at 1",
    ),
    "negative cost": (
        lambda: seen(cost_ms=-ONES),
        "observed: cost_ms must be finite and >= 0, or NaN if no record was processed; "
        "got -1.0 at 0",
    ),
    "NaN pending": (lambda: seen(pending=NAN), "observed: pending must be finite; got nan"),
    "infinite pending": (lambda: seen(pending=INF), "observed: pending must be finite; got inf"),
    "no instances": (lambda: seen(degree=0), "observed: degree must be >= 1; got 0"),
    "half an instance": (
        lambda: seen(degree=1.5),
        "observed: degree must be a whole number; got 1.5",
    ),
    "changed in the future": (
        lambda: seen(unchanged=-1),
        "observed: unchanged must be >= 0; got -1",
    ),
    # Snapshots.
    "no snapshot": (
        lambda: RoundRobin(3).restore(None),
        "snapshot must be bytes; got NoneType",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_in_one_line(case):
    action, message = CASES[case]
    assert refusal(action) == message


BAD_FEEDBACK = {
    "delta": (Feedback(0, delta_ms=NAN), "feedback: delta_ms must be finite; got nan"),
    "waiting time": (
        Feedback(0, waited_ms=INF, records=1, planned_ms=1.0),
        "feedback: waited_ms must be finite; got inf",
    ),
    "plan": (
        Feedback(0, waited_ms=1.0, records=1, planned_ms=NAN),
        "feedback: planned_ms must be finite; got nan",
    ),
    "busy time": (
        Feedback(0, busy_ms=INF, records=1),
        "feedback: busy_ms must be finite; got inf",
    ),
    "utilization": (
        Feedback(0, utilization=NAN),
        "feedback: utilization must be finite; got nan",
    ),
    "slowdown": (Feedback(0, slowdown=0.0), "feedback: slowdown must be > 0; got 0"),
    "instance": (
        Feedback(-1, delta_ms=1.0),
        "feedback: instance must be >= 0; got -1",
    ),
    "records": (
        Feedback(0, waited_ms=1.0, records=-1),
        "feedback: records must be >= 0; got -1",
    ),
    "text": (Feedback(0, delta_ms="1"), "feedback: delta_ms must be a number; got '1'"),
    "nothing": (None, "feedback must be a Feedback; got None"),
}


@pytest.mark.parametrize("policy", [Proactive(3), Consistent(3), LoadAware(average(5))], ids=str)
@pytest.mark.parametrize("case", BAD_FEEDBACK)
def test_bad_feedback_is_refused_and_spoils_nothing(policy, case):
    feedback, message = BAD_FEEDBACK[case]
    one = policy.clone()
    before = one.snapshot()
    assert refusal(lambda: one.observe(feedback)) == message
    assert one.snapshot() == before
