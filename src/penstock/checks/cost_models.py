"""Checks of every cost model."""

from collections.abc import Callable

import numpy as np

from penstock.checks.common import name_of
from penstock.checks.records import DISTINCT, Sample, records
from penstock.errors import PenstockError
from penstock.policies.costs import CostModel


def check_estimates_in_range(model: CostModel) -> None:
    """Every estimate lies between the smallest and the largest cost seen."""
    sample = records(1)
    found = _learnt(model, sample).estimate(np.arange(DISTINCT))
    label = f"{name_of(model)}.estimate"
    assert found.dtype == np.float64, f"{label} must return float64; got {found.dtype}"
    # Means may be kept in single precision.
    least, most = 0.999 * sample.costs_ms.min(), 1.001 * sample.costs_ms.max()
    assert ((found >= least) & (found <= most)).all(), (
        f"{label} must return costs between the smallest and the largest one seen, "
        f"{least:g} and {most:g} ms; got {found.min():g} to {found.max():g} ms"
    )


def check_one_by_one(model: CostModel) -> None:
    """Learning records one by one has the same effect as learning them in a batch."""
    keys, costs = records(2, 300)
    batch, single = model.clone(), model.clone()
    batch.update(keys, costs)
    for i in range(keys.size):
        single.update(keys[i : i + 1], costs[i : i + 1])
    assert batch.snapshot() == single.snapshot(), (
        f"{name_of(model)}.update must learn the same from a batch as from its records one by one; "
        "the snapshots differ"
    )


def check_model_snapshot(model: CostModel) -> None:
    """A model restored in the middle of a stream goes on like the original."""
    keys, costs = records(3)
    half = keys.size // 2
    first, second = model.clone(), model.clone()
    first.update(keys[:half], costs[:half])
    second.restore(first.snapshot())
    for one in (first, second):
        one.update(keys[half:], costs[half:])
    assert first.snapshot() == second.snapshot(), (
        f"{name_of(model)}.restore must bring back all that was learnt; "
        "after more records the restored model differs from the original"
    )


def check_merge(model: CostModel) -> None:
    """An empty model that is merged with another one has learnt all that the other has."""
    sample = records(4)
    learnt, merged = _learnt(model, sample), model.clone()
    merged.merge(learnt)
    frequent = np.unique(sample.keys, return_counts=True)[0][:5]
    found, expected = merged.estimate(frequent), learnt.estimate(frequent)
    assert np.allclose(found, expected, rtol=1e-3, atol=0, equal_nan=True), (
        f"{name_of(model)}.merge must learn all that the other model has learnt; "
        f"an empty model estimates {found} ms instead of {expected} ms after it"
    )


def check_decay(model: CostModel) -> None:
    """Estimates stay the same when all that was learnt counts less."""
    sample = records(5)
    faded = _learnt(model, sample)
    before = faded.estimate(sample.keys)
    faded.decay(0.5)
    after = faded.estimate(sample.keys)
    assert np.allclose(after, before, rtol=1e-6, atol=0, equal_nan=True), (
        f"{name_of(model)}.decay must leave the estimates as they are; "
        f"they differ by up to {np.abs(after - before).max():g} ms after it"
    )


def check_hand_over(model: CostModel) -> None:
    """A model that was handed over does not change, and the giver starts again."""
    sample, label = records(6), name_of(model)
    giver = _learnt(model, sample)
    before = giver.snapshot()
    taken = giver.hand_over()
    assert giver.snapshot() == model.clone().snapshot(), (
        f"{label}.hand_over must leave a model that has learnt nothing; "
        "its snapshot differs from that of a new one"
    )
    giver.update(sample.keys, sample.costs_ms + 1)
    assert taken.snapshot() == before, (
        f"{label}.hand_over must return a model with memory of its own; "
        "it changed when the giver learnt more (see clear)"
    )


def check_model_memory(model: CostModel) -> None:
    """Memory does not grow with the stream."""
    learnt = _learnt(model, records(7))
    before = learnt.memory_bytes
    for seed in range(8, 12):
        more = records(seed)
        learnt.update(more.keys, more.costs_ms)
    assert learnt.memory_bytes == before, (
        f"the memory of {name_of(model)} must not grow with the stream; "
        f"it went from {before} to {learnt.memory_bytes} bytes"
    )


def check_bad_costs(model: CostModel) -> None:
    """Negative, NaN and infinite costs are refused."""
    for cost in (-1.0, np.nan, np.inf):
        try:
            model.clone().update([1], [cost])
        except PenstockError:
            continue
        raise AssertionError(
            f"{name_of(model)}.update must refuse a cost of {cost} with a PenstockError; "
            "it accepted it"
        )


def _learnt(model: CostModel, sample: Sample) -> CostModel:
    """Return a clone of the model that has learnt a sample."""
    learnt = model.clone()
    learnt.update(sample.keys, sample.costs_ms)
    return learnt


CHECKS: list[Callable[..., None]] = [
    check_estimates_in_range,
    check_one_by_one,
    check_model_snapshot,
    check_merge,
    check_decay,
    check_hand_over,
    check_model_memory,
    check_bad_costs,
]
