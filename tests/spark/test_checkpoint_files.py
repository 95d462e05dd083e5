"""Learnt costs are saved soon, then less and less often, whether the store works or not."""

import threading
from itertools import pairwise

import pytest
from flows import NUMBERED, WAIT_S, drop, run, some_files, source

import penstock
from penstock.control import Controller, Journal, OperatorPolicies
from penstock.policies.grouping import Factoring
from penstock.spark import internals
from penstock.spark.driver import checkpoint_files as module
from penstock.spark.driver.checkpoint_files import CheckpointFiles


class Store:
    """A file system that counts requests, and may refuse them."""

    def __init__(self, works):
        self.works = works
        self.requests = []

    def checkpoint_of(self, spark, query):
        return "/checkpoint"

    def create_file(self, spark, path, data):
        self.requests.append(path)
        if not self.works:
            raise OSError("slow down")

    def delete_file(self, spark, path):
        pass


@pytest.mark.parametrize("works", [True, False])
def test_costs_are_saved_less_and_less_often(monkeypatch, caplog, works):
    store, now_s = Store(works), [0.0]
    monkeypatch.setattr(module, "internals", store)
    monkeypatch.setattr(module.time, "monotonic", lambda: now_s[0])
    files = CheckpointFiles()
    controller = Controller("work", "query", OperatorPolicies(Factoring(2)), journal=Journal())
    saved_s = []
    for tick in range(2 * 600):  # ten minutes, a look every half a second
        now_s[0] = tick / 2
        controller.unsaved = True
        before = len(store.requests)
        files.save_if_due(None, controller)
        if len(store.requests) > before:
            saved_s.append(now_s[0])
            assert controller.unsaved == (not works)
    gaps_s = [after - before for before, after in pairwise(saved_s)]
    assert saved_s[0] == 1
    assert gaps_s[:5] == [2, 4, 8, 16, 32]
    assert set(gaps_s[5:]) == {60}
    assert len(set(store.requests)) == len(store.requests)  # each file is new
    told = [one for one in caplog.records if "costs cannot be saved" in one.getMessage()]
    assert len(told) == (0 if works else len(saved_s))


@pytest.mark.spark
def test_a_store_that_hangs_holds_up_no_other_query(spark, tmp_path, monkeypatch):
    asked, works = threading.Event(), threading.Event()
    create = internals.create_file

    def hang(spark, path, data):
        if "hanging.snapshot" in path:
            asked.set()
            assert works.wait(WAIT_S)
        create(spark, path, data)

    monkeypatch.setattr(internals, "create_file", hang)
    drop(tmp_path / "in", *some_files(3))
    found = {}
    try:
        for name in ("hanging", "other"):
            op = penstock.balance(
                lambda record: record, key="entity", schema=NUMBERED, instances=2, name=name
            )
            (tmp_path / name).mkdir()
            run(source(spark, tmp_path / "in").transform(op), tmp_path / name)
            assert asked.wait(WAIT_S)
            found[name] = op.stats().received
    finally:
        works.set()
    assert found == {"hanging": 60, "other": 60}


def test_a_program_that_ends_waits_for_the_file_that_is_written(monkeypatch):
    asked, works = threading.Event(), threading.Event()
    store = Store(True)
    create = store.create_file

    def hang(spark, path, data):
        asked.set()
        assert works.wait(WAIT_S)
        create(spark, path, data)

    store.create_file = hang
    now_s = [0.0]
    monkeypatch.setattr(module, "internals", store)
    monkeypatch.setattr(module.time, "monotonic", lambda: now_s[0])
    files = CheckpointFiles()
    controller = Controller("work", "query", OperatorPolicies(Factoring(2)), journal=Journal())
    controller.unsaved = True
    files.save_if_due(None, controller)  # it is due a second later
    now_s[0] = 1.0
    files.save_aside([(None, controller)])
    assert asked.wait(WAIT_S)
    files.save_all([(None, controller)])  # another thread is at it
    threading.Timer(0.2, works.set).start()
    files.close()
    assert len(store.requests) == 1
