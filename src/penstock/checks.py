"""The conformance suite: what every policy must do, ours and yours.

Example:
    >>> from penstock.policies.grouping import RoundRobin
    >>> for name, check in yield_checks(RoundRobin(instances=3)):
    ...     check()

In a test of your own:

    @pytest.mark.parametrize("name, check", yield_checks(MyGrouping(instances=5)))
    def test_conformance(name, check):
        check()
"""

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.machinery import PathFinder
from types import ModuleType

import numpy as np

import penstock.policies
from penstock.errors import PenstockError
from penstock.policies import Policy
from penstock.policies.costs import CostModel, Exact
from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Float64, Int32, Int64

Check = Callable[[], None]

DISTINCT = 500
RECORDS = 4_000


def discover() -> dict[str, type[Policy]]:
    """Import everything below `penstock.policies` and return the registered classes."""
    _import_all(penstock.policies)
    return Policy.registered()


def _import_all(package: ModuleType) -> None:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)


def example(cls: type[Policy]) -> Policy:
    """Make a policy with its defaults, and with what has none."""
    keys = np.arange(DISTINCT)
    needed: dict[str, object] = {}
    parameters = cls.parameters()
    if issubclass(cls, Grouping):
        needed["instances"] = 5
    if "costs" in parameters:
        needed["costs"] = Exact(keys, _cost_of(keys))
    if {"keys", "costs_ms"} <= set(parameters):
        needed |= {"keys": keys, "costs_ms": _cost_of(keys)}
    return cls(**needed)


def yield_checks(policy: Policy) -> Iterator[tuple[str, Check]]:
    """Yield the name of each check that applies, and a function that raises if it fails."""
    checks = [check_clone, check_repr, check_snapshot_refuses, check_no_pyspark]
    if isinstance(policy, CostModel):
        checks += _COST_MODEL_CHECKS
    if isinstance(policy, Grouping):
        checks += _GROUPING_CHECKS
    for check in checks:
        yield check.__name__.removeprefix("check_"), partial(check, policy)


# Common.


def check_clone(policy: Policy) -> None:
    """A clone is equal, and another object."""
    clone = policy.clone()
    assert clone is not policy
    assert clone == policy
    assert clone.snapshot() == policy.clone().snapshot()


def check_repr(policy: Policy) -> None:
    """`repr` names the class and every parameter."""
    text = repr(policy)
    assert text.startswith(type(policy).__name__)
    assert all(f"{name}=" in text for name in policy.parameters())


def check_snapshot_refuses(policy: Policy) -> None:
    """A foreign, a truncated and a damaged snapshot are refused, and change nothing."""
    before = policy.snapshot()
    damaged = bytearray(before)
    damaged[-1] ^= 1
    for wrong in (b"", b"something else", before[:-3], bytes(damaged)):
        try:
            policy.clone().restore(wrong)
        except PenstockError:
            continue
        raise AssertionError(f"a wrong snapshot was taken: {wrong[:20]!r}")
    assert policy.snapshot() == before
    if "seed" in policy.parameters():
        try:
            policy.clone(seed=getattr(policy, "seed", 0) + 1).restore(before)
        except PenstockError:
            return
        raise AssertionError("a snapshot of another seed was taken")


def check_no_pyspark(policy: Policy) -> None:
    """The policy's module does not import Spark."""
    module = type(policy).__module__
    file = getattr(sys.modules[module], "__file__", None)
    if module == "__main__" or file is None:
        return  # typed in, or a script: it cannot be imported again
    by_name = "." in module or PathFinder.find_spec(module) is not None
    load = f"import {module}" if by_name else f"import runpy; runpy.run_path({file!r})"
    code = f"import sys; sys.path[:] = {sys.path!r}; {load}; sys.exit('pyspark' in sys.modules)"
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], check=False, capture_output=True
    )
    assert not done.stderr, f"{module} cannot be imported: {done.stderr.decode()[-500:]}"
    assert done.returncode == 0, f"{module} imports pyspark"


# Cost models.


def check_estimates_in_range(model: CostModel) -> None:
    """Every estimate lies between the smallest and the largest cost seen."""
    keys, costs = _records(1)
    learnt = model.clone()
    learnt.update(keys, costs)
    found = learnt.estimate(np.arange(DISTINCT))
    assert found.dtype == np.float64
    # Means may be kept in single precision.
    assert (found >= 0.999 * costs.min()).all()
    assert (found <= 1.001 * costs.max()).all()


def check_one_by_one(model: CostModel) -> None:
    """Learning records one by one is learning them in a batch."""
    keys, costs = _records(2, 300)
    batch, single = model.clone(), model.clone()
    batch.update(keys, costs)
    for i in range(keys.size):
        single.update(keys[i : i + 1], costs[i : i + 1])
    assert batch.snapshot() == single.snapshot()


def check_model_snapshot(model: CostModel) -> None:
    """A model restored in the middle of a stream goes on as if nothing had happened."""
    keys, costs = _records(3)
    half = keys.size // 2
    first, second = model.clone(), model.clone()
    first.update(keys[:half], costs[:half])
    second.restore(first.snapshot())
    for one in (first, second):
        one.update(keys[half:], costs[half:])
    assert first.snapshot() == second.snapshot()


def check_merge(model: CostModel) -> None:
    """A merged model knows what both have learnt: an empty one learns all of the other."""
    keys, costs = _records(4)
    learnt, merged = model.clone(), model.clone()
    learnt.update(keys, costs)
    merged.merge(learnt)
    frequent = np.unique(keys, return_counts=True)[0][:5]
    np.testing.assert_allclose(merged.estimate(frequent), learnt.estimate(frequent), rtol=1e-3)


def check_decay(model: CostModel) -> None:
    """What fades keeps its estimates."""
    keys, costs = _records(5)
    faded = model.clone()
    faded.update(keys, costs)
    before = faded.estimate(keys)
    faded.decay(0.5)
    np.testing.assert_allclose(faded.estimate(keys), before, rtol=1e-6)


def check_hand_over(model: CostModel) -> None:
    """What is handed over stays as it is, and the model starts anew."""
    keys, costs = _records(6)
    giver = model.clone()
    giver.update(keys, costs)
    before = giver.snapshot()
    taken = giver.hand_over()
    assert giver.snapshot() == model.clone().snapshot()
    giver.update(keys, costs + 1)
    assert taken.snapshot() == before


def check_model_memory(model: CostModel) -> None:
    """Memory does not grow with the stream."""
    learnt = model.clone()
    learnt.update(*_records(7))
    before = learnt.memory_bytes
    for seed in range(8, 12):
        learnt.update(*_records(seed))
    assert learnt.memory_bytes == before


def check_bad_costs(model: CostModel) -> None:
    """Negative, NaN and infinite costs are refused."""
    for cost in (-1.0, np.nan, np.inf):
        try:
            model.clone().update([1], [cost])
        except PenstockError:
            continue
        raise AssertionError(f"a cost of {cost} was taken")


_COST_MODEL_CHECKS: list[Callable[..., None]] = [
    check_estimates_in_range,
    check_one_by_one,
    check_model_snapshot,
    check_merge,
    check_decay,
    check_hand_over,
    check_model_memory,
    check_bad_costs,
]

# Groupings.


def check_range(grouping: Grouping) -> None:
    """Every record is routed once, to an instance that exists, as int32."""
    routed = drive(grouping.clone(), *_records(21))
    assert routed.shape == (RECORDS,)
    assert routed.dtype == np.int32
    assert routed.min() >= 0
    assert routed.max() < grouping.instances


def check_same_decisions(grouping: Grouping) -> None:
    """The same parameters and inputs give the same decisions."""
    first, second = (drive(grouping.clone(), *_records(22)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def check_batch_is_one_by_one(grouping: Grouping) -> None:
    """Routing a batch is routing its records one by one, before and after learning."""
    for learnt in (0, RECORDS):
        batch, single = grouping.clone(), grouping.clone()
        for one in (batch, single):
            drive(one, *_records(23, learnt))
        keys, _ = _records(24, 200)
        now = np.arange(200) * 3.0
        one_by_one = [single.route(keys[i : i + 1], now[i : i + 1])[0] for i in range(200)]
        np.testing.assert_array_equal(batch.route(keys, now), one_by_one)


def check_steps(grouping: Grouping) -> None:
    """Routing in steps up to possible answers decides as routing at once."""
    keys, _ = _records(25, 1_000)
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
    keys, costs = _records(26)
    half = keys.size // 2
    first, second = grouping.clone(), grouping.clone()
    drive(first, keys[:half], costs[:half])
    second.restore(first.snapshot())
    np.testing.assert_array_equal(
        drive(first, keys[half:], costs[half:]), drive(second, keys[half:], costs[half:])
    )


def check_inputs_kept(grouping: Grouping) -> None:
    """Inputs are not changed, and may be read-only."""
    keys, _ = _records(27, 100)
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
    drive(one, *_records(28))
    before = one.memory_bytes
    for seed in range(29, 32):
        drive(one, *_records(seed))
    assert one.memory_bytes == before


def check_fan_out(grouping: Grouping) -> None:
    """The records of a key end on no more instances than declared."""
    keys, costs = _records(32)
    routed = drive(grouping.clone(), keys, costs)
    pairs = np.unique(np.stack([keys, routed]), axis=1)
    assert np.bincount(pairs[0]).max() <= grouping.fan_out


def check_resize(grouping: Grouping) -> None:
    """More and fewer instances: nothing goes to one that does not exist."""
    one = grouping.clone()
    drive(one, *_records(33))
    for instances in (grouping.instances + 3, 1, 2):
        one.resize(instances)
        routed = drive(one, *_records(34))
        assert one.instances == instances
        assert routed.max() < instances


_GROUPING_CHECKS: list[Callable[..., None]] = [
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


def _records(seed: int, records: int = RECORDS) -> tuple[Int64, Float64]:
    """Skewed keys, with costs that depend on the key."""
    rng = np.random.default_rng(seed)
    keys = np.minimum(rng.zipf(1.3, size=records), DISTINCT).astype(np.int64) - 1
    return keys, _cost_of(keys)


def _cost_of(keys: Int64) -> Float64:
    return (1 + keys * 37 % 64).astype(np.float64)
