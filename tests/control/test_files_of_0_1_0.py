"""Files that the first form of 0.1.0 has written are read, or refused; never misread."""

import json
from pathlib import Path

import numpy as np
import pytest

from penstock.control import Controller, Journal, OperatorPolicies
from penstock.control.snapshots import read_pin
from penstock.errors import PenstockError
from penstock.grouping import KeyHash, Proactive
from penstock.shedding import LoadAware, average

DATA = Path(__file__).parent / "data"
SAVED = DATA / "operator-0.1.0.snapshot"
PIN = DATA / "batch-0.1.0.pin"


def policies(instances=2, capacity=4):
    shedder = LoadAware(average("2 s"), keep="cheap", instances=instances, capacity=capacity)
    return OperatorPolicies(Proactive(instances, capacity=capacity), shedder)


def controller(**more):
    return Controller("enrich", "query", policies(**more), journal=Journal())


def test_learnt_costs_are_read():
    resumed = controller()
    resumed.load(SAVED.read_bytes())
    assert resumed.stats().state == "RUN"
    learnt = policies()
    learnt.restore(resumed.snapshot("3").data)
    for policy in learnt.all:
        np.testing.assert_allclose(policy.expected_ms([1, 2, 3]), [10.0, 2.0, 5.0])


def test_the_pin_of_a_batch_is_read_with_its_active_instances():
    batch, snapshot = read_pin(PIN.read_bytes())
    assert (batch, snapshot.active) == ("2", 1)
    resumed = controller()
    resumed.load_pin(PIN.read_bytes())
    again = resumed.snapshot("2")
    assert (again.active, again.began_s) == (1, snapshot.began_s)
    decided = policies(instances=1)
    decided.restore(again.data)
    np.testing.assert_allclose(decided.shedder.expected_ms([1, 2, 3]), [10.0, 2.0, 5.0])


def test_other_policies_refuse_them():
    other = Controller("enrich", "query", OperatorPolicies(KeyHash(2)), journal=Journal())
    for resumed in (other, controller(capacity=8)):
        with pytest.raises(PenstockError):
            resumed.load(SAVED.read_bytes())
        with pytest.raises(PenstockError):
            resumed.load_pin(PIN.read_bytes())


def test_a_saved_file_is_no_pin_and_a_pin_no_saved_file():
    with pytest.raises(PenstockError):
        controller().load(PIN.read_bytes())
    with pytest.raises(PenstockError):
        read_pin(SAVED.read_bytes())


def test_journals_have_the_same_kinds_and_fields():
    before = [json.loads(line) for line in (DATA / "journal-0.1.0.jsonl").read_text().splitlines()]
    resumed = controller()
    resumed.snapshot("1")
    now = resumed.journal.entries()[-1]
    (plan, *_) = [entry for entry in before if entry["kind"] == "plan"]
    assert plan.keys() == now.keys()
    assert {entry["kind"] for entry in before} == {"plan", "observation"}
