"""How a router decides with the driver's answer and without it; no Spark needed."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.control import Controller, Journal, OperatorPolicies
from penstock.control.reports import TaskId, unpack
from penstock.errors import PenstockError
from penstock.grouping import Grouping, KeyHash, Proactive, RoundRobin
from penstock.shedding import LoadAware, average
from penstock.spark.channel import Address, Answer, ControlServer
from penstock.spark.destinations import SHED, Destinations
from penstock.spark.executor import router
from penstock.spark.executor.columns import ARRIVAL, KEY, PARTITION, PROTECTED, RECORD
from penstock.spark.executor.router import control_of, routing
from penstock.spark.executor.spec import OperatorSpec

TASK = TaskId("op", "", "execution 3", 1)


def spec_of(policies, address, reads=(KEY,)):
    return OperatorSpec.of(
        "op",
        "work",
        policies,
        address=address,
        destinations=Destinations(policies.grouping.tasks),
        use="f00d",
        reads=reads,
    )


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """A worker in a folder of its own, outside of a task of Spark."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(router, "_answers", type(router._answers)())
    monkeypatch.setattr(router, "_policies", type(router._policies)())


@pytest.fixture
def nobody():
    return Address("127.0.0.1", 9, b"key")


@pytest.fixture
def serve():
    """Start a driver that knows a controller."""
    servers = []

    def start(policies):
        controller = Controller("work", "query", policies, journal=Journal())
        server = ControlServer(
            "127.0.0.1",
            lambda request: Answer("query", "12", controller.snapshot(request["batch"])),
        )
        servers.append(server)
        return server.address

    yield start
    for one in servers:
        one.close()


def test_the_driver_names_query_and_batch(serve):
    policies = OperatorPolicies(Proactive(2, capacity=8))
    control = control_of(spec_of(policies, serve(policies)), TASK)
    assert (control.task.query, control.task.batch) == ("query", "12")
    assert (control.task.partition, control.fallback) == (1, "")
    assert control.age_ms >= 0


@pytest.mark.parametrize("grouping", [KeyHash(3, seed=5), Proactive(3), RoundRobin(3)])
def test_without_the_driver_the_grouping_stays_and_nothing_is_shed(nobody, grouping):
    policies = OperatorPolicies(grouping, LoadAware(average("1 ms"), instances=3))
    control = control_of(spec_of(policies, nobody), TASK)
    assert control.policies.grouping == grouping
    assert control.policies.shedder is None
    assert "127.0.0.1:9" in control.fallback
    assert np.isnan(control.age_ms)
    keys = np.arange(100)
    expected = grouping.clone().route(keys)
    np.testing.assert_array_equal(control.policies.grouping.route(keys), expected)


def test_a_grouping_that_learns_nothing_needs_no_driver(nobody):
    control = control_of(spec_of(OperatorPolicies(KeyHash(3)), nobody), TASK)
    assert (control.fallback, control.snapshot) == ("", None)


def test_a_snapshot_for_more_instances_than_the_query_has_is_refused(serve):
    address = serve(OperatorPolicies(Proactive(8, capacity=8)))
    spec = spec_of(OperatorPolicies(Proactive(4, capacity=8)), address)
    control = control_of(spec, TASK)
    assert control.fallback == "the snapshot is for 8 instances, and this query has 4"
    assert control.policies.grouping.instances == 4


def test_a_worker_keeps_the_policies_of_a_few_operators_only(serve):
    policies = OperatorPolicies(Proactive(2, capacity=8))
    address = serve(policies)
    for number in range(50):
        spec = spec_of(policies, address)
        control_of(type(spec)(**{**vars(spec), "identity": f"op {number}"}), TASK)
    assert len(router._policies) <= 8
    assert len(router._answers) == 1


class Sent(list):
    """Takes the place of an accumulator."""

    def add(self, reports):
        self.extend(reports)


def routed(spec, batches, monkeypatch):
    """The destinations of batches of columns, and the reports."""
    monkeypatch.setattr(router, "task_id", lambda spec, number: TaskId("op", "", "1", number))
    monkeypatch.setattr(router, "map_task_number", lambda: 1)
    sent = Sent()
    found = [one.to_pylist() for one in routing(spec, sent)(iter(batches))]
    return found, [unpack(one) for one in sent]


def test_a_task_without_records_asks_and_reports_nothing(nobody, monkeypatch):
    spec = spec_of(OperatorPolicies(Proactive(2)), nobody)
    assert routed(spec, [], monkeypatch) == ([], [])


def test_the_order_of_records_does_not_matter_if_they_are_hashed(nobody, monkeypatch):
    """Each record goes to the same place, however a shuffle has ordered and cut them."""
    spec = spec_of(OperatorPolicies(RoundRobin(3)), nobody, reads=(KEY, RECORD))
    generator = np.random.default_rng(3)
    keys = generator.integers(0, 5, 90)
    records = generator.permutation(90)
    places = []
    for cuts in ([30, 60], [1, 2, 89], []):
        order = generator.permutation(90)
        columns = [np.split(array[order], cuts) for array in (keys, records)]
        batches = [tuple(map(pa.array, batch)) for batch in zip(*columns, strict=True)]
        found, reports = routed(spec, batches, monkeypatch)
        assert [len(one) for one in found] == [len(batch[0]) for batch in batches]
        assert [one.records for one in reports] == [90]
        flat = [place for one in found for place in one]
        places.append(dict(zip(records[order].tolist(), flat, strict=True)))
    assert places[0] == places[1] == places[2]
    assert set(places[0].values()) == {0, 1, 2}


def test_the_number_of_a_router_in_front_comes_from_the_plan(serve, monkeypatch):
    class Nobody(LoadAware):
        def admit_together(self, keys, arrival_ms, now_ms=None, protected=None):
            return np.zeros(len(keys), dtype=bool)

    policies = OperatorPolicies(RoundRobin(1), Nobody(average("1 ms"), capacity=8))
    reads = (KEY, ARRIVAL, PROTECTED, PARTITION)
    spec = spec_of(policies, serve(policies), reads=reads)
    batch = (
        pa.array([1, 2]),
        pa.array([0.0, None]),
        pa.array([False, False]),
        pa.array([7, 7], pa.int32()),
    )
    found, (report,) = routed(spec, [batch], monkeypatch)
    assert found == [[SHED, SHED]]
    assert (report.task.partition, report.shed, report.undated) == (7, 2, 1)


class Own(Grouping):
    """Returns what it was told to."""

    def __init__(self, instances, found):
        super().__init__(instances)
        self.found = found

    def route(self, keys, now_ms=None):
        return {
            "list": [0] * len(keys),
            "short": np.zeros(1, dtype=np.int32),
            "outside": np.full(len(keys), self.instances, dtype=np.int32),
            "wide": np.full(len(keys), 1, dtype=np.int64),
        }[self.found]


@pytest.mark.parametrize(
    "found, got",
    [
        ("list", "int32 array with one instance for each of 3 records; got a value of type list"),
        (
            "short",
            "int32 array with one instance for each of 3 records; got dtype int32 and shape (1,)",
        ),
        ("outside", "tasks from 0 to 1; got 2"),
    ],
)
def test_a_grouping_of_a_user_that_returns_something_else(found, got, nobody, monkeypatch):
    spec = spec_of(OperatorPolicies(Own(2, found)), nobody)
    with pytest.raises(PenstockError) as caught:
        routed(spec, [pa.array([1, 2, 3])], monkeypatch)
    assert str(caught.value).startswith(
        ("Own.route must return ", "Own.route_together must return ")
    )
    assert str(caught.value).endswith(got)


def test_destinations_have_the_type_that_spark_needs(nobody, monkeypatch):
    spec = spec_of(OperatorPolicies(Own(2, "wide")), nobody)
    monkeypatch.setattr(router, "task_id", lambda spec, number: TaskId("op", "", "1", number))
    monkeypatch.setattr(router, "map_task_number", lambda: 1)
    (found,) = routing(spec, Sent())(iter([pa.array([1, 2, 3])]))
    assert found == pa.array([1, 1, 1], pa.int32())


def test_a_shedder_of_a_user_that_returns_something_else(serve, monkeypatch):
    class Listing(LoadAware):
        def admit_together(self, keys, arrival_ms, now_ms=None, protected=None):
            return [True] * len(keys)

    policies = OperatorPolicies(RoundRobin(1), Listing(average("1 ms"), capacity=8))
    spec = spec_of(policies, serve(policies), reads=(KEY, ARRIVAL, PROTECTED))
    batch = (pa.array([1, 2]), pa.array([0.0, 0.0]), pa.array([False, False]))
    with pytest.raises(PenstockError) as caught:
        routed(spec, [batch], monkeypatch)
    assert str(caught.value) == (
        "Listing.admit must return a bool array with True or False for each of 2 records; "
        "got a value of type list"
    )
