"""Operators that the user has dropped: their costs are saved, and nothing waits for them."""

import gc
import threading

import pytest
from flows import NUMBERED, numbered

import penstock
from penstock.spark.driver import control_plane as module
from penstock.spark.driver.control_plane import ControlPlane

pytestmark = pytest.mark.spark


def used(spark):
    """An operator that has run."""
    op = penstock.balance(lambda record: record, key="entity", schema=NUMBERED, instances=2)
    numbered(spark, 20).transform(op).collect()
    return op


def test_the_garbage_collector_may_drop_an_operator_within_any_lock(spark):
    """A finalizer runs wherever memory is collected, also while the same thread holds a lock."""
    plane, done = ControlPlane.of(spark), threading.Event()
    holder = [used(spark)]

    def drop():
        with plane.registry._lock:
            holder.clear()
            gc.collect()
        done.set()

    threading.Thread(target=drop, daemon=True).start()
    assert done.wait(60)


def test_a_dropped_operator_is_removed_when_it_is_not_used(spark, monkeypatch):
    plane, op = ControlPlane.of(spark), used(spark)
    identity = op.identity
    assert plane.registry.all(identity)
    monkeypatch.setattr(module, "_UNUSED_S", 0.0)
    plane._remove_forgotten()
    assert plane.registry.all(identity)  # still held by the user
    del op
    gc.collect()
    plane._remove_forgotten()
    assert plane.registry.all(identity) == []
    assert identity not in plane._dropped
