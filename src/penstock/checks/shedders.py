"""Checks of every shedder."""

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
from penstock.errors import PenstockError
from penstock.policies.kernels import Bool, Float64, Int64
from penstock.policies.shedding import Shedder

# Rate at which records arrive, over the rate at which they can be executed.
_OVERLOAD = 2.0


def check_every_record(shedder: Shedder) -> None:
    """Every record is either admitted or shed."""
    driven = _driven(shedder.clone(), seed=41)
    keys, _ = records(41)
    admitted = shedder.clone().admit(keys, np.zeros(RECORDS))
    for found in (driven, admitted):
        assert found.shape == (RECORDS,), (
            f"{name_of(shedder)}.admit must decide about each of {RECORDS} records; "
            f"got shape {found.shape}"
        )
    assert admitted.dtype == np.bool_, (
        f"{name_of(shedder)}.admit must return bool; got {admitted.dtype}"
    )


def check_same_decisions(shedder: Shedder) -> None:
    """The same parameters and inputs give the same decisions."""
    duty = "must decide about the same records in the same way every time"
    must_repeat(shedder, lambda one: _driven(one, seed=42), duty)


def check_batch_is_one_by_one(shedder: Shedder) -> None:
    """Decisions about a batch are those about its records one by one."""
    duty = "must decide about a batch like about its records one by one"
    must_decide_one_by_one(
        shedder,
        lambda one, keys, times_ms: one.admit(keys, times_ms),
        lambda one, count: _driven(one, seed=43, count=count),
        seed=44,
        duty=f"{name_of(shedder)}.admit {duty}",
    )


def check_steps(shedder: Shedder) -> None:
    """Decisions in steps up to possible answers are those about all records at once."""
    at_once, stepwise = shedder.clone(), shedder.clone()
    for one in (at_once, stepwise):
        _driven(one, seed=45)
        one.restart()
    keys, _ = records(46, 1_000)
    times = np.arange(1_000, dtype=np.float64) * 3.0
    expected = at_once.admit(keys, times)
    unprotected = np.zeros(1_000, dtype=np.bool_)
    duty = f"{name_of(shedder)}.admit_until_answer must decide like admit"
    done = 0
    while done < keys.size:
        mask = stepwise.admit_until_answer(
            keys[done:], times[done:], times[done:], unprotected[done:]
        ).mask
        _refuse_wrong_step(shedder, mask, keys.size - done)
        must_equal(mask, expected[done : done + mask.size], duty)
        done += mask.size


def check_snapshot(shedder: Shedder) -> None:
    """A shedder restored in the middle of a stream decides about the rest like the original."""
    must_resume(shedder, drive_shedder, seed=47)


def check_inputs_kept(shedder: Shedder) -> None:
    """Inputs are not changed, and may be read-only."""
    keys, _ = records(48, 100)
    times, spared = np.arange(100, dtype=np.float64), np.ones(100, dtype=np.bool_)
    with read_only(keys, times, spared, method=f"{name_of(shedder)}.admit"):
        shedder.clone().admit(keys, times, times, spared)


def check_empty(shedder: Shedder) -> None:
    """Without records there are no decisions."""
    nothing = np.empty(0, dtype=np.int64)
    found = shedder.clone().admit(nothing, np.empty(0))
    assert found.shape == (0,), (
        f"{name_of(shedder)}.admit must return an empty array for no records; "
        f"got shape {found.shape}"
    )


def check_memory(shedder: Shedder) -> None:
    """Memory does not grow with the stream."""
    must_not_grow(shedder, lambda one, seed: _driven(one, seed=seed), range(49, 53))


def check_slack(shedder: Shedder) -> None:
    """No record is shed if every record is done before the next one arrives."""
    if shedder.blind:
        return
    one = shedder.clone()
    _driven(one, seed=53)
    one.restart()
    keys, costs = records(54)
    admitted = drive_shedder(one, keys, costs, interval_ms=2 * float(costs.max()))
    assert admitted.all(), (
        f"{name_of(shedder)} must not shed if every record is done before the next one arrives "
        f"(or declare blind = True); it shed {(~admitted).sum()} of {admitted.size} records"
    )


def check_protected(shedder: Shedder) -> None:
    """A protected record is never shed."""
    one = shedder.clone()
    _driven(one, seed=55)
    keys, _ = records(56)
    at_once = np.zeros(keys.size)
    spared = keys % 2 == 0
    for method in ("admit", "admit_together"):
        admitted = getattr(one, method)(keys, at_once, at_once, spared)
        assert admitted.shape == keys.shape, (
            f"{name_of(shedder)}.{method} must decide about each of {keys.size} records; "
            f"got shape {admitted.shape}"
        )
        assert admitted[spared].all(), (
            f"{name_of(shedder)}.{method} must admit every protected record; "
            f"it shed {(~admitted[spared]).sum()} of {spared.sum()}"
        )


def check_resize(shedder: Shedder) -> None:
    """A shedder goes on with more and fewer instances."""
    one = shedder.clone()
    try:
        shedder.clone(instances=2)
        one.resize(2)
    except PenstockError:
        return  # made for one instance only
    _driven(one, seed=57)
    for instances in (3, 1, 2):
        one.resize(instances)
        _driven(one, seed=58)
        assert one.instances == instances, (
            f"{name_of(shedder)}.resize({instances}) must set instances to {instances}; "
            f"got {one.instances}"
        )
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
    shedder: Shedder, keys: Int64, costs_ms: Float64, *, interval_ms: float | None = None
) -> Bool:
    """Decide about records, and execute them in turn: the simplest possible engine.

    Args:
        shedder: shedder that decides and learns.
        keys: key of each record.
        costs_ms: cost of each record.
        interval_ms: time between two records; None for twice the rate that can be executed.
    """
    k = shedder.instances
    trackers = [shedder.tracker(i) for i in range(k)]
    mean_ms = float(costs_ms.mean()) if costs_ms.size else 0.0
    step_ms = mean_ms / k / _OVERLOAD if interval_ms is None else interval_ms
    times: Float64 = np.arange(keys.size, dtype=np.float64) * step_ms
    unprotected = np.zeros(keys.size, dtype=np.bool_)
    out = np.empty(keys.size, dtype=np.bool_)
    unreported: list[list[int]] = [[] for _ in range(k)]
    free_ms = np.zeros(k)
    turn = done = 0
    while done < keys.size:
        decided = shedder.admit_until_answer(
            keys[done:], times[done:], times[done:], unprotected[done:]
        )
        _refuse_wrong_step(shedder, decided.mask, keys.size - done)
        stop = done + decided.mask.size
        out[done:stop] = decided.mask
        for record in done + np.flatnonzero(decided.mask):
            turn = (turn + 1) % k
            free_ms[turn] = max(free_ms[turn], times[record]) + costs_ms[record]
            unreported[turn].append(int(record))
        tracker = trackers[turn]
        if decided.answerable and tracker is not None:
            own, unreported[turn] = np.array(unreported[turn]), []
            done_ms = float(free_ms[turn])
            for feedback in tracker.execute(keys[own], costs_ms[own], done_ms, decided.request):
                shedder.observe(feedback)
        done = stop
    return out


def _driven(shedder: Shedder, *, seed: int, count: int = RECORDS) -> Bool:
    """Decide about the records of a seed."""
    sample = records(seed, count)
    return drive_shedder(shedder, sample.keys, sample.costs_ms)


def _refuse_wrong_step(shedder: Shedder, mask: Bool, most: int) -> None:
    assert mask.dtype == np.bool_, f"{name_of(shedder)}.admit must return bool; got {mask.dtype}"
    assert 1 <= mask.size <= most, (
        f"{name_of(shedder)} must decide about at least one of {most} records in a step, and about "
        f"each once; got {mask.size} decisions"
    )
