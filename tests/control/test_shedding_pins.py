"""Pins of an operator that sheds: a batch is decided about as before, also after a restart."""

import json
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shed_reports import controller_of, measured, published, routed, two_instances

from penstock.control import Controller, Journal
from penstock.control.snapshots import Snapshot, read_pin
from penstock.errors import PenstockError
from penstock.policies import codec


@pytest.fixture
def policies():
    return two_instances()


@pytest.fixture
def kept():
    return []


@pytest.fixture
def controller(policies, kept):
    return controller_of(policies, kept)


SHARES = st.lists(st.floats(0.001, 1), max_size=5).map(tuple)


@given(
    st.text(max_size=20), st.integers(0, 2**48), st.floats(0, 2e9), SHARES, st.binary(max_size=50)
)
def test_a_pin_is_read_as_it_was_written(batch, version, began_s, shares, data):
    snapshot = Snapshot(version, began_s, zlib.compress(data), began_s + 1, shares)
    found, again = read_pin(snapshot.pin(batch))
    assert (found, again) == (batch, snapshot)
    assert again.data == data


def test_headers_are_json(controller):
    snapshot = controller.snapshot("1")
    header = json.loads(json.dumps(snapshot.header()))
    assert "packed" not in header
    assert Snapshot.of(header, snapshot.packed) == snapshot


def test_a_damaged_pin_is_refused(controller, policies):
    pin = controller.snapshot("1").pin("1")
    flipped = bytearray(pin)
    flipped[-1] ^= 1
    none = np.zeros(0, dtype=np.uint8)
    for wrong in (
        b"",
        b"something else",
        pin[:-3],
        bytes(flipped),
        policies.snapshot(),
        codec.encode("penstock-pin", {"packed": none}),
        codec.encode("penstock-pin", {"header": none, "packed": none}),
    ):
        with pytest.raises(PenstockError):
            controller.load_pin(wrong)
    for header in ({}, [], {"batch": "1"}, {"batch": "1", "version": "x", "created_s": 0}):
        text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        wrong = codec.encode("penstock-pin", {"header": text, "packed": none})
        with pytest.raises(PenstockError, match="not the snapshot of a batch"):
            read_pin(wrong)


def test_it_is_kept_before_routers_know_and_once_for_each_batch(controller, kept):
    first = controller.snapshot("1")
    controller.snapshot("1")
    controller.snapshot("2")
    assert [read_pin(pin)[0] for pin in kept] == ["1", "2"]
    assert read_pin(kept[0])[1] == first


def test_a_batch_that_cannot_be_kept_is_not_decided_about(policies):
    def full(_):
        raise OSError("no space left")

    controller = Controller("enrich", "query", policies, journal=Journal(), keep=full)
    for _ in range(2):
        with pytest.raises(OSError, match="no space left"):
            controller.snapshot("1")


def test_after_a_restart_the_batch_is_decided_about_as_before(controller, policies, kept):
    for instance in (0, 1):
        controller.observe(routed(3, router=instance))
        controller.observe(measured(policies, instance))
    before = controller.snapshot("7")
    saved = controller.save()

    resumed = Controller("enrich", "query", policies, journal=Journal())
    resumed.load_pin(kept[-1])
    resumed.load(saved)
    for instance in (0, 1):
        resumed.observe(measured(policies, instance, "6", costs=((1, 99.0),)))
    again = resumed.snapshot("7")
    assert replace(again, version=0) == replace(before, version=0)
    assert again.data == before.data
    later = resumed.snapshot("8")
    assert later.version != again.version
    assert later.data != again.data


def test_a_pin_is_not_kept_once_more(policies, controller, kept):
    controller.snapshot("7")
    more = []
    resumed = Controller("enrich", "query", policies, journal=Journal(), keep=more.append)
    resumed.load_pin(kept[0])
    resumed.snapshot("7")
    assert more == []


def test_resumed_policies_have_learnt_and_nothing_waits(controller, policies):
    for instance in (0, 1):
        controller.observe(routed(2, router=instance, planned_ms=1e6))
        controller.observe(measured(policies, instance, waited_ms=1e6))
    resumed = Controller("enrich", "query", policies, journal=Journal())
    resumed.load(controller.save())
    shedder = published(resumed, "1", policies).shedder
    assert shedder.state == "RUN"
    np.testing.assert_allclose(shedder.expected_ms([1, 2]), [10.0, 2.0])
    assert shedder.admit([1], [0.0], [1_500.0])[0]


def test_two_pins_of_different_contents_have_different_versions(controller, policies, kept):
    controller.snapshot("1")
    for instance in (0, 1):
        controller.observe(measured(policies, instance))
    controller.snapshot("2")
    resumed = Controller("enrich", "query", policies, journal=Journal())
    for pin in kept:
        resumed.load_pin(pin)
    first, second = resumed.snapshot("1"), resumed.snapshot("2")
    assert first.data != second.data
    assert first.version != second.version
