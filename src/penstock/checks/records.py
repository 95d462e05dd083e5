"""Records that checks are made with, and comparisons that explain a difference."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.checks.common import name_of
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
        f"{name_of(policy)} must decide like the original after restore(snapshot())",
    )


def must_repeat(policy: P, driven: Callable[[P], npt.ArrayLike], duty: str) -> None:
    """Raise an AssertionError if a policy decides otherwise when it runs again.

    Args:
        policy: policy to check.
        driven: function that runs a policy over records, and returns its decisions.
        duty: the rest of a sentence that starts with the policy, without a full stop.
    """
    first, second = (driven(policy.clone()) for _ in range(2))
    must_equal(second, first, f"{name_of(policy)} {duty}")


def must_decide_one_by_one(
    policy: P,
    decide: Callable[[P, Int64, Float64], npt.NDArray[Any]],
    teach: Callable[[P, int], object],
    *,
    seed: int,
    duty: str,
) -> None:
    """Raise an AssertionError if decisions about a batch are not those about single records.

    Args:
        policy: policy to check, before and after learning.
        decide: function that returns the decisions about keys at some times.
        teach: function that runs a policy over a number of records, which it learns from.
        seed: seed of the records.
        duty: sentence without a full stop that states what the policy must do.
    """
    keys, _ = records(seed, 200)
    times_ms = np.arange(200, dtype=np.float64) * 3.0
    for learnt in (0, RECORDS):
        batch, single = policy.clone(), policy.clone()
        for one in (batch, single):
            teach(one, learnt)
        one_by_one = [decide(single, keys[i : i + 1], times_ms[i : i + 1])[0] for i in range(200)]
        must_equal(decide(batch, keys, times_ms), one_by_one, duty)


def must_not_grow(policy: P, driven: Callable[[P, int], object], seeds: range) -> None:
    """Raise an AssertionError if the memory of a policy grows with the stream.

    Args:
        policy: policy to check.
        driven: function that runs a policy over the records of a seed.
        seeds: seeds of the records; the memory after the first is compared.
    """
    one = policy.clone()
    driven(one, seeds[0])
    before = one.memory_bytes
    for seed in seeds[1:]:
        driven(one, seed)
    assert one.memory_bytes == before, (
        f"the memory of {name_of(policy)} must not grow with the stream; "
        f"it went from {before} to {one.memory_bytes} bytes"
    )


@contextmanager
def read_only(*arrays: npt.NDArray[Any], method: str) -> Iterator[None]:
    """Raise an AssertionError if a method writes to its inputs, or needs writable ones.

    Args:
        arrays: inputs of the method, which become read-only.
        method: name of the method for messages.
    """
    for array in arrays:
        array.flags.writeable = False
    try:
        yield
    except ValueError as error:
        raise AssertionError(
            f"{method} must accept read-only arrays and not change them; it raised {error}"
        ) from error


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
