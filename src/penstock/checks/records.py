"""Records that checks are made with, and comparisons that explain a difference."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.policies import Policy
from penstock.policies.kernels import Float64, Int64

P = TypeVar("P", bound=Policy)

DISTINCT = 500
RECORDS = 4_000


class Sample(NamedTuple):
    """Keys and costs of some records.

    Attributes:
        keys: key of each record, skewed.
        costs_ms: cost of each record, which depends on its key.
    """

    keys: Int64
    costs_ms: Float64


def records(seed: int, count: int = RECORDS) -> Sample:
    """Draw records whose keys are skewed."""
    rng = np.random.default_rng(seed)
    keys = np.minimum(rng.zipf(1.3, size=count), DISTINCT).astype(np.int64) - 1
    return Sample(keys, cost_of(keys))


def cost_of(keys: Int64) -> Float64:
    """Return the cost of a record of each key."""
    return (1 + keys * 37 % 64).astype(np.float64)


def must_resume(policy: P, drive: Callable[[P, Int64, Float64], npt.ArrayLike], seed: int) -> None:
    """Raise an AssertionError if a policy decides otherwise after restore(snapshot()).

    Args:
        policy: policy to check.
        drive: function that runs a policy over keys and costs, and returns its decisions.
        seed: seed of the records.
    """
    keys, costs_ms = records(seed)
    half = keys.size // 2
    first, second = policy.clone(), policy.clone()
    drive(first, keys[:half], costs_ms[:half])
    second.restore(first.snapshot())
    must_equal(
        drive(second, keys[half:], costs_ms[half:]),
        drive(first, keys[half:], costs_ms[half:]),
        f"{type(policy).__name__} must decide like the original after restore(snapshot())",
    )


def must_equal(found: npt.ArrayLike, expected: npt.ArrayLike, duty: str) -> None:
    """Raise an AssertionError that names the duty and the first difference of two arrays.

    Args:
        found: values that the policy returned.
        expected: values that it must return.
        duty: sentence without a full stop that states what the policy must do.
    """
    got, wanted = np.asarray(found), np.asarray(expected)
    assert got.shape == wanted.shape, f"{duty}; got shape {got.shape} instead of {wanted.shape}"
    different = np.flatnonzero(got.ravel() != wanted.ravel())
    if different.size:
        first = different[0]
        raise AssertionError(
            f"{duty}; value {first} is {got.ravel()[first]} instead of {wanted.ravel()[first]}"
        )
