"""Bytes and numbers from outside: accepted, or refused with one line; nothing else happens.

Checksums are made to fit, so that damaged contents reach the code behind them. `make soak` tries
more inputs.
"""

import contextlib
import json
import math
import socket
import struct
import threading
import zlib

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from outside import NUMBERS, accepted_or_refused

from penstock.control import Controller, Journal, OperatorPolicies, Snapshot
from penstock.control.reports import (
    ExecutionReport,
    RouterReport,
    TaskId,
    pack,
    unpack,
    unpack_costs,
)
from penstock.control.saved import read_saved
from penstock.control.snapshots import read_pin
from penstock.errors import PenstockError
from penstock.policies import codec
from penstock.policies.feedback import measure
from penstock.policies.grouping import Consistent, Factoring, Grouping, KeyHash
from penstock.policies.seeds import SecretSeed
from penstock.policies.shedding import LoadAware, average
from penstock.spark.channel import Answer, ControlServer, fetch
from penstock.spark.executor.snapshots import _read, _write
from penstock.spark.wire import Wire

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
PIN = {"version": 1, "name": "penstock-pin"}
DEEP = "[" * 100_000


def sealed(header: bytes, body: bytes = b"") -> bytes:
    """Bytes in the form of a snapshot, with a checksum that fits."""
    data = header + body
    return struct.pack("<8sII", codec.MAGIC, len(header), zlib.crc32(data)) + data


def policies():
    return OperatorPolicies(
        Factoring(3, capacity=8, seed=SecretSeed(5)), LoadAware(average("2 s"), instances=3)
    )


def answer():
    snapshot = Snapshot(1, 2.0, zlib.compress(policies().snapshot()), began_s=3.0)
    return Answer("q", "7", snapshot).header(), snapshot


@st.composite
def damaged(draw, data: bytes):
    """Some bytes: cut, overwritten, repeated, or others."""
    way = draw(st.integers(0, 3))
    at = draw(st.integers(0, len(data)))
    more = draw(st.binary(max_size=64))
    if way == 0:
        return data[:at]
    if way == 1:
        return data[:at] + more + data[at + len(more) :]
    if way == 2:
        return data[:at] + data[at:] * draw(st.integers(0, 3))
    return more


@st.composite
def resealed(draw, data: bytes):
    """Bytes of a snapshot that are damaged behind a checksum that fits."""
    length = struct.unpack_from("<8sII", data)[1]
    body = data[16:]
    changed = draw(damaged(body))
    return sealed(changed[:length], changed[length:])


READERS = {
    "saved": lambda data: read_saved(data, like=policies()),
    "pin": read_pin,
    "policies": lambda data: policies().restore(data),
    "controller": lambda data: Controller("c", "q", policies(), journal=Journal()).load(data),
    "pinned": lambda data: Controller("c", "q", policies(), journal=Journal()).load_pin(data),
}


@pytest.mark.parametrize("reader", READERS)
@given(header=ANY_JSON, body=st.binary(max_size=200))
@example(
    header={"version": 1, "name": "penstock-pin", "arrays": [["header", "|u1", [2**70]]]}, body=b""
)
def test_any_header_is_read_or_refused(reader, header, body):
    accepted_or_refused(READERS[reader], sealed(json.dumps(header).encode(), body))


@pytest.mark.parametrize("reader", READERS)
def test_a_header_that_is_nested_deeply_is_refused(reader):
    with pytest.raises(PenstockError):
        READERS[reader](sealed(DEEP.encode()))


@pytest.mark.parametrize("reader", READERS)
@given(data=st.data())
def test_files_that_are_damaged_behind_their_checksum(reader, data):
    made = Controller("c", "q", policies(), journal=Journal())
    valid = {"saved": made.save(), "controller": made.save(), "policies": policies().snapshot()}
    pin = answer()[1].pin("7")
    accepted_or_refused(READERS[reader], data.draw(resealed(valid.get(reader, pin))))


@given(fields=ANY_JSON, packed=st.binary(max_size=80))
@example(fields={"batch": "1", "version": math.inf, "created_s": 1.0}, packed=b"")
@example(fields={"batch": "1", "version": 1, "created_s": 1.0, "active": math.inf}, packed=b"")
def test_any_header_of_a_pin_is_read_or_refused(fields, packed):
    parts = {"header": json.dumps(fields).encode(), "packed": packed}
    arrays = {name: np.frombuffer(part, dtype=np.uint8) for name, part in parts.items()}
    found = accepted_or_refused(read_pin, codec.encode("penstock-pin", arrays))
    if found is not None:
        accepted_or_refused(lambda: found[1].data)


TASK = TaskId("op", "q", "7", 0, "use")
REPORTS = [
    RouterReport(TASK, records=3, router_ms=1.0, snapshot_age_ms=2.0),
    ExecutionReport(TASK, records=3, emitted=3, busy_ms=5.0, executor="1"),
]


@given(text=st.text(max_size=60) | ANY_JSON.map(json.dumps), data=st.binary(max_size=60))
@example(text="5", data=b"")
@example(text=DEEP, data=b"")
@example(text='{"kind": []}', data=b"")
@example(text='{"kind": "router", "task": {}, "sampled": 1e999}', data=b"")
def test_any_report_is_read_or_refused(text, data):
    accepted_or_refused(unpack, (text, data))


@given(data=st.data())
def test_reports_with_other_values(data):
    text, costs = pack(data.draw(st.sampled_from(REPORTS)))
    fields = json.loads(text)
    fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(ANY_JSON)
    accepted_or_refused(unpack, (json.dumps(fields), costs))


@given(data=st.binary(max_size=300) | st.binary(max_size=300).map(zlib.compress))
def test_any_costs_are_read_or_refused(data):
    accepted_or_refused(unpack_costs, data, Factoring(3, seed=SecretSeed(5)), 0)


@given(data=st.data())
def test_an_answer_on_the_executors_disk_is_used_or_fetched_again(data, tmp_path_factory):
    file = tmp_path_factory.getbasetemp() / "answer"
    header, snapshot = answer()
    _write(file, Answer.of(header, snapshot.packed))
    file.write_bytes(data.draw(damaged(file.read_bytes())))
    found = _read(file)
    if found is not None:
        accepted_or_refused(lambda: policies().restore(found.snapshot.data))


@pytest.fixture(scope="module")
def server():
    header, snapshot = answer()
    started = ControlServer(
        "127.0.0.1", lambda request: Answer.of(header, snapshot.packed), handshake_s=0.2
    )
    yield started
    started.close()


def still_answers(server):
    return fetch(server.address, {"operator": "o", "query": "q"}, None).batch == "7"


@given(garbage=st.binary(max_size=300))
def test_a_stranger_disturbs_nobody(server, garbage):
    with socket.create_connection((server.address.host, server.address.port), 5) as peer:
        peer.sendall(garbage)
    assert still_answers(server)


@given(request=st.binary(max_size=200) | ANY_JSON.map(lambda one: json.dumps(one).encode()))
@example(request=DEEP[:4_000].encode())
def test_a_member_with_any_request_disturbs_nobody(server, request):
    failures = []
    before, threading.excepthook = threading.excepthook, failures.append
    try:
        with socket.create_connection((server.address.host, server.address.port), 5) as peer:
            peer.settimeout(5)
            wire = Wire.connect(peer, server.address.key)
            wire.send(request)
            with contextlib.suppress(EOFError, OSError):
                wire.receive()
        assert still_answers(server)
    finally:
        threading.excepthook = before
    assert failures == []


@example(costs=[3.4028235677973366e38], key=0)  # more than single precision has
@example(costs=[1e18] * 20, key=0)
@example(costs=[0.0, 1.175494351e-38], key=0)
@given(costs=st.lists(NUMBERS, min_size=1, max_size=20), key=st.integers(-(2**63), 2**63 - 1))
def test_any_cost_leaves_the_grouping_usable(costs, key):
    grouping = Factoring(3, capacity=4)
    tracker = grouping.tracker(0)
    keys = np.full(len(costs), key, dtype=np.int64)

    def learn():
        with np.errstate(invalid="ignore", over="ignore"):  # sums of what is refused then
            messages = [*measure(tracker, keys, np.array(costs), sizes=None), *tracker.finish()]
        for one in messages:
            grouping.observe(one)

    accepted_or_refused(learn)
    routed = grouping.route_together(np.arange(50))
    assert routed.min() >= 0
    assert routed.max() < grouping.tasks
    assert np.isfinite(grouping.expected_ms(np.array([key]))).all()


@given(keys=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50), instances=st.integers(1, 40))
def test_any_key_goes_to_an_instance(keys, instances):
    for kind in (KeyHash, Consistent, Factoring):
        grouping = kind(instances)
        routed = grouping.route(np.array(keys, dtype=np.int64))
        assert all(0 <= one < grouping.tasks for one in routed)


@given(data=st.data())
def test_any_parameter_of_a_grouping_is_accepted_or_refused(data):
    name = data.draw(st.sampled_from(sorted(Grouping.registered())))
    kind = Grouping.registered()[name]
    small = st.integers(-2, 50) | NUMBERS | st.none() | st.text(max_size=5) | st.booleans()
    params = data.draw(st.dictionaries(st.sampled_from(sorted(kind.parameters())), small))
    made = accepted_or_refused(lambda: Grouping.named(name, **params))
    if made is not None:
        assert accepted_or_refused(made.route, np.arange(5)) is not None
