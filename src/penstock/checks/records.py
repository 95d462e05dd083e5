"""Records that checks are made with."""

import numpy as np

from penstock.policies.kernels import Float64, Int64

DISTINCT = 500
RECORDS = 4_000


def records(seed: int, count: int = RECORDS) -> tuple[Int64, Float64]:
    """Skewed keys, with costs that depend on the key."""
    rng = np.random.default_rng(seed)
    keys = np.minimum(rng.zipf(1.3, size=count), DISTINCT).astype(np.int64) - 1
    return keys, cost_of(keys)


def cost_of(keys: Int64) -> Float64:
    """What a key costs."""
    return (1 + keys * 37 % 64).astype(np.float64)
