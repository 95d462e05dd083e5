"""What every grouping must do."""

from collections.abc import Callable

import numpy as np

from penstock.checks.records import RECORDS, records
from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Float64, Int32, Int64


def check_range(grouping: Grouping) -> None:
    """Every record is routed once, to an instance that exists, as int32."""
    routed = drive(grouping.clone(), *records(21))
    assert routed.shape == (RECORDS,)
    assert routed.dtype == np.int32
    assert routed.min() >= 0
    assert routed.max() < grouping.instances


def check_same_decisions(grouping: Grouping) -> None:
    """The same parameters and inputs give the same decisions."""
    first, second = (drive(grouping.clone(), *records(22)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def check_batch_is_one_by_one(grouping: Grouping) -> None:
    """Routing a batch is routing its records one by one, before and after learning."""
    for learnt in (0, RECORDS):
        batch, single = grouping.clone(), grouping.clone()
        for one in (batch, single):
            drive(one, *records(23, learnt))
        keys, _ = records(24, 200)
        now = np.arange(200) * 3.0
        one_by_one = [single.route(keys[i : i + 1], now[i : i + 1])[0] for i in range(200)]
        np.testing.assert_array_equal(batch.route(keys, now), one_by_one)


def check_steps(grouping: Grouping) -> None:
    """Routing in steps up to possible answers decides as routing at once."""
    keys, _ = records(25, 1_000)
    now = np.arange(1_000, dtype=np.float64) * 3.0
    at_once = grouping.clone().route(keys, now)
    stepwise = grouping.clone()
    done = 0
    while done < keys.size:
        routed = stepwise.route_until_answer(keys[done:], now[done:]).instances
        assert routed.size > 0
        np.testing.assert_array_equal(routed, at_once[done : done + routed.size])
        done += routed.size


def check_snapshot(grouping: Grouping) -> None:
    """A snapshot taken in the middle of a stream, resumed, decides as if uninterrupted."""
    keys, costs = records(26)
    half = keys.size // 2
    first, second = grouping.clone(), grouping.clone()
    drive(first, keys[:half], costs[:half])
    second.restore(first.snapshot())
    np.testing.assert_array_equal(
        drive(first, keys[half:], costs[half:]), drive(second, keys[half:], costs[half:])
    )


def check_inputs_kept(grouping: Grouping) -> None:
    """Inputs are not changed, and may be read-only."""
    keys, _ = records(27, 100)
    now = np.arange(100, dtype=np.float64)
    keys.flags.writeable = now.flags.writeable = False
    grouping.clone().route(keys, now)


def check_empty(grouping: Grouping) -> None:
    """No records, no decisions."""
    nothing = np.empty(0, dtype=np.int64)
    assert grouping.clone().route(nothing).shape == (0,)
    assert grouping.clone().route_until_answer(nothing, np.empty(0)).instances.shape == (0,)


def check_memory(grouping: Grouping) -> None:
    """Memory does not grow with the stream."""
    one = grouping.clone()
    drive(one, *records(28))
    before = one.memory_bytes
    for seed in range(29, 32):
        drive(one, *records(seed))
    assert one.memory_bytes == before


def check_fan_out(grouping: Grouping) -> None:
    """The records of a key end on no more instances than declared."""
    keys, costs = records(32)
    routed = drive(grouping.clone(), keys, costs)
    pairs = np.unique(np.stack([keys, routed]), axis=1)
    assert np.bincount(pairs[0]).max() <= grouping.fan_out


def check_resize(grouping: Grouping) -> None:
    """More and fewer instances: nothing goes to one that does not exist."""
    one = grouping.clone()
    drive(one, *records(33))
    for instances in (grouping.instances + 3, 1, 2):
        one.resize(instances)
        routed = drive(one, *records(34))
        assert one.instances == instances
        one.clone().restore(one.snapshot())
        assert routed.max() < instances


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
    """Route records and let instances answer at once: the least engine there can be."""
    trackers = [grouping.tracker(i) for i in range(grouping.instances)]
    now = _times(costs_ms)
    out = np.empty(keys.size, dtype=np.int32)
    reported = [0] * grouping.instances
    done = 0
    while done < keys.size:
        routed = grouping.route_until_answer(keys[done:], now[done:])
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


def _times(costs_ms: Float64) -> Float64:
    mean_ms = float(costs_ms.mean()) if costs_ms.size else 0.0
    return np.arange(costs_ms.size) * mean_ms / 5
