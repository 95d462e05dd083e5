"""Speeds of executors, from costs of the same keys on several of them."""

from collections.abc import Sequence

import numpy as np

from penstock.policies.kernels import Float64, Int64

# Executors with fewer costs count as usual ones, and so do smaller differences.
_FEWEST = 30
_SMALLEST = 1.15
_ROUNDS = 8


def slowdowns_of(
    names: Sequence[str], *, keys: Int64, executors: Sequence[str], costs_ms: Float64
) -> Float64:
    """Return the slowdown of each executor: 1 for the usual one, and for all that do not differ.

    The logarithm of a cost is taken as the sum of a number of the key and one of the executor.

    Args:
        names: names of the executors.
        keys: key of each record.
        executors: executor of each record.
        costs_ms: cost of each record, > 0.

    Example:
        >>> keys = np.tile([1, 2], 100)
        >>> costs = np.where(keys == 1, 1.0, 5.0) * np.repeat([1.0, 2.0], 100)
        >>> slow = ["a"] * 100 + ["b"] * 100
        >>> slowdowns_of(["a", "b"], keys=keys, executors=slow, costs_ms=costs).round(2)
        array([1., 2.])
    """
    place = {name: number for number, name in enumerate(names)}
    where = np.array([place[one] for one in executors], dtype=np.int64)
    count = np.bincount(where, minlength=len(names))
    if len(names) < 2:
        return np.ones(len(names))
    _, key = np.unique(keys, return_inverse=True)
    logs = np.log(np.maximum(costs_ms, 1e-6))
    of_executor = np.zeros(len(names))
    for _ in range(_ROUNDS):
        of_key = np.bincount(key, logs - of_executor[where]) / np.bincount(key)
        rest = np.bincount(where, logs - of_key[key], minlength=len(names))
        of_executor = np.where(count >= _FEWEST, rest / np.maximum(count, 1), 0.0)
        known = of_executor[count >= _FEWEST]
        # The usual executor is one of the faster half.
        of_executor -= np.quantile(known, 0.5, method="lower") if known.size else 0.0
    found: Float64 = np.exp(np.where(count >= _FEWEST, of_executor, 0.0))
    return np.where((found > _SMALLEST) | (found < 1 / _SMALLEST), found, 1.0)
