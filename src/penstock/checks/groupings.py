"""Checks of every grouping."""

from collections.abc import Callable

import numpy as np

from penstock.checks.common import name_of
from penstock.checks.records import (
    RECORDS,
    must_decide_one_by_one,
    must_equal,
    must_not_grow,
    must_repeat,
    must_resume,
    read_only,
    records,
)
from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Float64, Int32, Int64


def check_range(grouping: Grouping) -> None:
    """Every record is routed once, to an instance that exists, as int32."""
    routed = _driven(grouping.clone(), seed=21)
    assert routed.shape == (RECORDS,), (
        f"{name_of(grouping)}.route must return one instance for each of {RECORDS} records; "
        f"got shape {routed.shape}"
    )
    assert routed.dtype == np.int32, (
        f"{name_of(grouping)}.route must return int32; got {routed.dtype}"
    )
    _refuse_outside(grouping, routed)


def check_same_decisions(grouping: Grouping) -> None:
    """The same parameters and inputs give the same decisions."""
    duty = "must route the same records in the same way every time"
    must_repeat(grouping, lambda one: _driven(one, seed=22), duty)


def check_batch_is_one_by_one(grouping: Grouping) -> None:
    """A batch is routed like its records one by one, before and after learning."""
    must_decide_one_by_one(
        grouping,
        lambda one, keys, times_ms: one.route(keys, times_ms),
        lambda one, count: _driven(one, seed=23, count=count),
        seed=24,
        duty=f"{name_of(grouping)}.route must route a batch like its records one by one",
    )


def check_steps(grouping: Grouping) -> None:
    """Records are routed in steps up to possible answers like all at once."""
    keys, _ = records(25, 1_000)
    now = np.arange(1_000, dtype=np.float64) * 3.0
    at_once = grouping.clone().route(keys, now)
    stepwise = grouping.clone()
    duty = f"{name_of(grouping)}.route_until_answer must decide like route"
    done = 0
    while done < keys.size:
        routed = stepwise.route_until_answer(keys[done:], now[done:]).instances
        _refuse_wrong_step(grouping, routed, keys.size - done)
        must_equal(routed, at_once[done : done + routed.size], duty)
        done += routed.size


def check_snapshot(grouping: Grouping) -> None:
    """A grouping restored in the middle of a stream routes the rest like the original."""
    must_resume(grouping, drive, seed=26)


def check_inputs_kept(grouping: Grouping) -> None:
    """Inputs are not changed, and may be read-only."""
    keys, _ = records(27, 100)
    now = np.arange(100, dtype=np.float64)
    with read_only(keys, now, method=f"{name_of(grouping)}.route"):
        grouping.clone().route(keys, now)


def check_empty(grouping: Grouping) -> None:
    """Without records there are no decisions."""
    nothing = np.empty(0, dtype=np.int64)
    routed = grouping.clone().route(nothing)
    stepwise = grouping.clone().route_until_answer(nothing, np.empty(0)).instances
    for method, found in (("route", routed), ("route_until_answer", stepwise)):
        assert found.shape == (0,), (
            f"{name_of(grouping)}.{method} must return an empty array for no records; "
            f"got shape {found.shape}"
        )


def check_memory(grouping: Grouping) -> None:
    """Memory does not grow with the stream."""
    must_not_grow(grouping, lambda one, seed: _driven(one, seed=seed), range(28, 32))


def check_fan_out(grouping: Grouping) -> None:
    """The records of a key go to no more instances than declared."""
    keys, costs = records(32)
    routed = drive(grouping.clone(), keys, costs)
    pairs = np.unique(np.stack([keys, routed]), axis=1)
    most = int(np.bincount(pairs[0]).max())
    assert most <= grouping.fan_out, (
        f"{name_of(grouping)} must send the records of a key to at most fan_out = "
        f"{grouping.fan_out} instances; one key has records on {most}"
    )


def check_resize(grouping: Grouping) -> None:
    """After more and fewer instances, records only go to instances that exist."""
    one = grouping.clone()
    _driven(one, seed=33)
    for instances in (grouping.instances + 3, 1, 2):
        one.resize(instances)
        routed = _driven(one, seed=34)
        assert one.instances == instances, (
            f"{name_of(grouping)}.resize({instances}) must set instances to {instances}; "
            f"got {one.instances}"
        )
        one.clone().restore(one.snapshot())
        assert routed.max() < instances, (
            f"{name_of(grouping)} must route to instances 0 to {instances - 1} after "
            f"resize({instances}); got {routed.max()}"
        )


CHECKS: list[Callable[..., None]] = [
    check_range,
    check_same_decisions,
    check_batch_is_one_by_one,
    check_steps,
    check_snapshot,
    check_inputs_kept,
    check_empty,
    check_memory,
    check_fan_out,
    check_resize,
]


def drive(grouping: Grouping, keys: Int64, costs_ms: Float64) -> Int32:
    """Route records and let instances answer at once: the simplest possible engine."""
    trackers = [grouping.tracker(i) for i in range(grouping.instances)]
    now = _times(costs_ms)
    out = np.empty(keys.size, dtype=np.int32)
    reported = [0] * grouping.instances
    done = 0
    while done < keys.size:
        routed = grouping.route_until_answer(keys[done:], now[done:])
        _refuse_wrong_step(grouping, routed.instances, keys.size - done)
        _refuse_outside(grouping, routed.instances)
        stop = done + routed.instances.size
        out[done:stop] = routed.instances
        done = stop
        instance = int(out[stop - 1])
        tracker = trackers[instance]
        if routed.answerable and tracker is not None:
            own = np.flatnonzero(out[reported[instance] : stop] == instance) + reported[instance]
            reported[instance] = stop
            for feedback in tracker.execute(
                keys[own], costs_ms[own], float(now[stop - 1]), routed.request
            ):
                grouping.observe(feedback)
    return out


def _driven(grouping: Grouping, *, seed: int, count: int = RECORDS) -> Int32:
    """Route the records of a seed."""
    sample = records(seed, count)
    return drive(grouping, sample.keys, sample.costs_ms)


def _refuse_wrong_step(grouping: Grouping, routed: Int32, most: int) -> None:
    assert 1 <= routed.size <= most, (
        f"{name_of(grouping)} must route at least one of {most} records in a step, and each once; "
        f"got {routed.size} instances"
    )


def _refuse_outside(grouping: Grouping, routed: Int32) -> None:
    assert ((routed >= 0) & (routed < grouping.instances)).all(), (
        f"{name_of(grouping)}.route must return instances from 0 to {grouping.instances - 1}; "
        f"got {routed.min()} to {routed.max()}"
    )


def _times(costs_ms: Float64) -> Float64:
    mean_ms = float(costs_ms.mean()) if costs_ms.size else 0.0
    return np.arange(costs_ms.size) * mean_ms / 5
