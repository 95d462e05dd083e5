"""What every shedder must do."""

from collections.abc import Callable

import numpy as np

from penstock.checks.records import RECORDS, records
from penstock.errors import PenstockError
from penstock.policies.kernels import Bool, Float64, Int64
from penstock.policies.shedding import Shedder

# Records arrive so much faster than they can be executed.
_OVERLOAD = 2.0


def check_every_record(shedder: Shedder) -> None:
    """Every record is either admitted or shed."""
    assert drive_shedder(shedder.clone(), *records(41)).shape == (RECORDS,)
    keys, _ = records(41)
    admitted = shedder.clone().admit(keys, np.zeros(RECORDS))
    assert admitted.shape == (RECORDS,)
    assert admitted.dtype == np.bool_


def check_same_decisions(shedder: Shedder) -> None:
    """The same parameters and inputs give the same decisions."""
    first, second = (drive_shedder(shedder.clone(), *records(42)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def check_batch_is_one_by_one(shedder: Shedder) -> None:
    """Deciding about a batch is deciding about its records one by one."""
    for learnt in (0, RECORDS):
        batch, single = shedder.clone(), shedder.clone()
        for one in (batch, single):
            drive_shedder(one, *records(43, learnt))
        keys, _ = records(44, 200)
        times = np.arange(200) * 3.0
        one_by_one = [single.admit(keys[i : i + 1], times[i : i + 1])[0] for i in range(200)]
        np.testing.assert_array_equal(batch.admit(keys, times), one_by_one)


def check_steps(shedder: Shedder) -> None:
    """Deciding in steps up to possible answers is deciding at once."""
    at_once, stepwise = shedder.clone(), shedder.clone()
    for one in (at_once, stepwise):
        drive_shedder(one, *records(45))
        one.restart()
    keys, _ = records(46, 1_000)
    times = np.arange(1_000, dtype=np.float64) * 3.0
    expected = at_once.admit(keys, times)
    nobody = np.zeros(1_000, dtype=np.bool_)
    done = 0
    while done < keys.size:
        rest = keys[done:], times[done:], times[done:], nobody[done:]
        mask = stepwise.admit_until_answer(*rest).mask
        assert mask.size > 0
        np.testing.assert_array_equal(mask, expected[done : done + mask.size])
        done += mask.size


def check_snapshot(shedder: Shedder) -> None:
    """A snapshot taken in the middle of a stream, resumed, decides as if uninterrupted."""
    keys, costs = records(47)
    half = keys.size // 2
    first, second = shedder.clone(), shedder.clone()
    drive_shedder(first, keys[:half], costs[:half])
    second.restore(first.snapshot())
    np.testing.assert_array_equal(
        drive_shedder(first, keys[half:], costs[half:]),
        drive_shedder(second, keys[half:], costs[half:]),
    )


def check_inputs_kept(shedder: Shedder) -> None:
    """Inputs are not changed, and may be read-only."""
    keys, _ = records(48, 100)
    times, spared = np.arange(100, dtype=np.float64), np.ones(100, dtype=np.bool_)
    for array in (keys, times, spared):
        array.flags.writeable = False
    shedder.clone().admit(keys, times, times, spared)


def check_empty(shedder: Shedder) -> None:
    """No records, no decisions."""
    nothing = np.empty(0, dtype=np.int64)
    assert shedder.clone().admit(nothing, np.empty(0)).shape == (0,)


def check_memory(shedder: Shedder) -> None:
    """Memory does not grow with the stream."""
    one = shedder.clone()
    drive_shedder(one, *records(49))
    before = one.memory_bytes
    for seed in range(50, 53):
        drive_shedder(one, *records(seed))
    assert one.memory_bytes == before


def check_slack(shedder: Shedder) -> None:
    """Nothing is shed where every record is done before the next one arrives."""
    if shedder.blind:
        return
    one = shedder.clone()
    drive_shedder(one, *records(53))
    one.restart()
    keys, costs = records(54)
    assert drive_shedder(one, keys, costs, interval_ms=2 * float(costs.max())).all()


def check_protected(shedder: Shedder) -> None:
    """A protected record is never shed."""
    one = shedder.clone()
    drive_shedder(one, *records(55))
    keys, _ = records(56)
    at_once = np.zeros(keys.size)
    spared = keys % 2 == 0
    for admit in (one.admit, one.admit_together):
        admitted = admit(keys, at_once, at_once, spared)
        assert admitted.shape == keys.shape
        assert admitted[spared].all()


def check_resize(shedder: Shedder) -> None:
    """It goes on with more and fewer instances."""
    one = shedder.clone()
    try:
        shedder.clone(instances=2)
        one.resize(2)
    except PenstockError:
        return  # made for one instance only
    drive_shedder(one, *records(57))
    for instances in (3, 1, 2):
        one.resize(instances)
        drive_shedder(one, *records(58))
        assert one.instances == instances
        one.clone().restore(one.snapshot())


CHECKS: list[Callable[..., None]] = [
    check_every_record,
    check_same_decisions,
    check_batch_is_one_by_one,
    check_steps,
    check_snapshot,
    check_inputs_kept,
    check_empty,
    check_memory,
    check_slack,
    check_protected,
    check_resize,
]


def drive_shedder(
    shedder: Shedder, keys: Int64, costs_ms: Float64, interval_ms: float | None = None
) -> Bool:
    """Decide about records, and execute them in turn: the least engine there can be."""
    k = shedder.instances
    trackers = [shedder.tracker(i) for i in range(k)]
    mean_ms = float(costs_ms.mean()) if costs_ms.size else 0.0
    step_ms = mean_ms / k / _OVERLOAD if interval_ms is None else interval_ms
    times: Float64 = np.arange(keys.size, dtype=np.float64) * step_ms
    nobody = np.zeros(keys.size, dtype=np.bool_)
    out = np.empty(keys.size, dtype=np.bool_)
    unheard: list[list[int]] = [[] for _ in range(k)]
    free_ms = np.zeros(k)
    turn = done = 0
    while done < keys.size:
        decided = shedder.admit_until_answer(keys[done:], times[done:], times[done:], nobody[done:])
        assert decided.mask.dtype == np.bool_, f"admit must return bool; got {decided.mask.dtype}"
        stop = done + decided.mask.size
        out[done:stop] = decided.mask
        for record in done + np.flatnonzero(decided.mask):
            turn = (turn + 1) % k
            free_ms[turn] = max(free_ms[turn], times[record]) + costs_ms[record]
            unheard[turn].append(int(record))
        tracker = trackers[turn]
        if decided.answerable and tracker is not None:
            own, unheard[turn] = np.array(unheard[turn]), []
            done_ms = float(free_ms[turn])
            for feedback in tracker.execute(keys[own], costs_ms[own], done_ms, decided.request):
                shedder.observe(feedback)
        done = stop
    return out
