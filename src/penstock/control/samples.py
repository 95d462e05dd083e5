"""Samples of a task's records, for traces: bounded, without payload, and packed for a report."""

import zlib
from typing import NamedTuple

import numpy as np

from penstock.errors import PenstockError
from penstock.policies import codec
from penstock.policies.kernels import Bool, Float64, Int64

_LABEL = "penstock-sample"
# Columns of a sample, in the order of `Sample`.
_TYPES = {"keys": "<i8", "costs_ms": "<f4", "sizes": "<f8", "arrival_ms": "<f8", "shed": "|b1"}


class Sample(NamedTuple):
    """Some records of a task, in their order.

    Attributes:
        keys: hash of the key of each record.
        costs_ms: measured cost of each record; NaN if it was not executed.
        sizes: size of each record; NaN if it is unknown.
        arrival_ms: time of arrival in milliseconds since 1970; NaN if it is unknown.
        shed: whether each record was shed.
        weight: number of records of the task that each sampled record stands for.
    """

    keys: Int64
    costs_ms: Float64
    sizes: Float64
    arrival_ms: Float64
    shed: Bool
    weight: float


class Sampler:
    """Keeps an even random sample of the records of one task.

    Which records are kept depends on their numbers and the seed only: a task that runs again
    keeps the same ones, if its records have the same order.

    Args:
        most: largest number of records that are kept.
        seed: seed of the choice, such as the number of the task.

    Example:
        >>> sampler = Sampler(most=2)
        >>> sampler.add(np.arange(10), costs_ms=np.ones(10))
        >>> found = unpack_sample(sampler.pack())
        >>> found.keys.size, found.weight
        (2, 5.0)
    """

    def __init__(self, most: int, seed: int = 0) -> None:
        self._most = most
        self._seed = seed
        self._seen = 0
        self._held = 0
        self._parts: list[dict[str, np.ndarray]] = []

    def add(
        self,
        keys: Int64,
        *,
        costs_ms: Float64 | None = None,
        sizes: Float64 | None = None,
        arrival_ms: Float64 | None = None,
        shed: Bool | None = None,
    ) -> None:
        """Offer records to the sample; unknown numbers are left out."""
        count = keys.size
        unknown = np.full(count, np.nan)
        numbers = np.arange(self._seen, self._seen + count)
        part = {
            "number": numbers,
            "keys": keys,
            "costs_ms": unknown if costs_ms is None else costs_ms,
            "sizes": unknown if sizes is None else sizes,
            "arrival_ms": unknown if arrival_ms is None else arrival_ms,
            "shed": np.zeros(count, dtype=np.bool_) if shed is None else shed,
        }
        self._seen += count
        # A single large part is thinned out at once, so that it is never held as a whole.
        chosen = _lowest(self._ranks(numbers), self._most)
        self._parts.append({name: array[chosen] for name, array in part.items()})
        self._held += chosen.size
        if self._held > 4 * self._most:
            self._parts = [self._thinned()]
            self._held = self._parts[0]["keys"].size

    def pack(self) -> bytes:
        """Return the sample as bytes; none if there were no records."""
        if not self._seen:
            return b""
        found = self._thinned()
        arrays = {name: found[name].astype(kind) for name, kind in _TYPES.items()}
        return zlib.compress(codec.encode(_LABEL, {**arrays, "seen": np.array([self._seen])}), 1)

    def _ranks(self, numbers: Int64) -> "np.ndarray":
        """Return a random rank of each record (the finaliser of splitmix64)."""
        start = np.uint64(self._seed & 0xFFFFFFFF) << np.uint64(32)
        mixed = (numbers.astype(np.uint64) ^ start) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))

    def _thinned(self) -> dict[str, "np.ndarray"]:
        """Return the records of the lowest ranks, in their order."""
        names = self._parts[0]
        whole = {name: np.concatenate([part[name] for part in self._parts]) for name in names}
        chosen = _lowest(self._ranks(whole["number"]), self._most)
        return {name: array[chosen] for name, array in whole.items()}


def _lowest(ranks: "np.ndarray", most: int) -> Int64:
    """Return the places of the lowest ranks, in their order."""
    if ranks.size <= most:
        return np.arange(ranks.size)
    return np.sort(np.argpartition(ranks, most)[:most])


def unpack_sample(data: bytes) -> Sample:
    """Read a sample that `Sampler.pack` wrote; refuse anything else."""
    try:
        arrays = codec.decode(_LABEL, zlib.decompress(data))
        columns = [arrays[name] for name in _TYPES]
        seen = int(arrays["seen"][0])
    except (zlib.error, KeyError) as error:
        raise PenstockError(f"a sample cannot be read ({error})") from None
    keys, costs_ms, sizes, arrival_ms, shed = columns
    return Sample(
        keys=keys,
        costs_ms=costs_ms.astype(np.float64),
        sizes=sizes,
        arrival_ms=arrival_ms,
        shed=shed,
        weight=seen / max(1, keys.size),
    )
