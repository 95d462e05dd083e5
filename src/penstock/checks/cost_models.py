"""What every cost model must do."""

from collections.abc import Callable

import numpy as np

from penstock.checks.records import DISTINCT, records
from penstock.errors import PenstockError
from penstock.policies.costs import CostModel


def check_estimates_in_range(model: CostModel) -> None:
    """Every estimate lies between the smallest and the largest cost seen."""
    keys, costs = records(1)
    learnt = model.clone()
    learnt.update(keys, costs)
    found = learnt.estimate(np.arange(DISTINCT))
    assert found.dtype == np.float64
    # Means may be kept in single precision.
    assert (found >= 0.999 * costs.min()).all()
    assert (found <= 1.001 * costs.max()).all()


def check_one_by_one(model: CostModel) -> None:
    """Learning records one by one is learning them in a batch."""
    keys, costs = records(2, 300)
    batch, single = model.clone(), model.clone()
    batch.update(keys, costs)
    for i in range(keys.size):
        single.update(keys[i : i + 1], costs[i : i + 1])
    assert batch.snapshot() == single.snapshot()


def check_model_snapshot(model: CostModel) -> None:
    """A model restored in the middle of a stream goes on as if nothing had happened."""
    keys, costs = records(3)
    half = keys.size // 2
    first, second = model.clone(), model.clone()
    first.update(keys[:half], costs[:half])
    second.restore(first.snapshot())
    for one in (first, second):
        one.update(keys[half:], costs[half:])
    assert first.snapshot() == second.snapshot()


def check_merge(model: CostModel) -> None:
    """A merged model knows what both have learnt: an empty one learns all of the other."""
    keys, costs = records(4)
    learnt, merged = model.clone(), model.clone()
    learnt.update(keys, costs)
    merged.merge(learnt)
    frequent = np.unique(keys, return_counts=True)[0][:5]
    np.testing.assert_allclose(merged.estimate(frequent), learnt.estimate(frequent), rtol=1e-3)


def check_decay(model: CostModel) -> None:
    """What fades keeps its estimates."""
    keys, costs = records(5)
    faded = model.clone()
    faded.update(keys, costs)
    before = faded.estimate(keys)
    faded.decay(0.5)
    np.testing.assert_allclose(faded.estimate(keys), before, rtol=1e-6)


def check_hand_over(model: CostModel) -> None:
    """What is handed over stays as it is, and the model starts anew."""
    keys, costs = records(6)
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
    learnt.update(*records(7))
    before = learnt.memory_bytes
    for seed in range(8, 12):
        learnt.update(*records(seed))
    assert learnt.memory_bytes == before


def check_bad_costs(model: CostModel) -> None:
    """Negative, NaN and infinite costs are refused."""
    for cost in (-1.0, np.nan, np.inf):
        try:
            model.clone().update([1], [cost])
        except PenstockError:
            continue
        raise AssertionError(f"a cost of {cost} was taken")


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
