"""Streams to rehearse with: the key, the cost and the time of arrival of each record."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies import validation
from penstock.policies.costs import Exact
from penstock.policies.kernels import Float64, Int64
from penstock.policies.validation import (
    at_least_zero,
    between,
    float64s,
    int64_keys,
    known,
    positive,
    whole,
)


@dataclass(frozen=True, eq=False)
class Stream:
    """Records in the order of arrival.

    Attributes:
        keys: key of each record.
        costs_ms: cost of each record on an instance with slowdown 1.
        arrivals_ms: time at which each record arrives, never decreasing.
        sizes: size of each record, for policies whose costs follow sizes; None without sizes.

    Example:
        >>> stream = Stream.of([1, 2, 1], [10.0, 1.0, 10.0]).every(interval_ms=1.0)
        >>> stream.arrivals_ms
        array([0., 1., 2.])
    """

    keys: Int64
    costs_ms: Float64
    arrivals_ms: Float64
    sizes: Float64 | None = None

    @classmethod
    def of(
        cls, keys: npt.ArrayLike, costs_ms: npt.ArrayLike, sizes: npt.ArrayLike | None = None
    ) -> Self:
        """Return a stream of these records, all of which arrive at time 0."""
        array = int64_keys("keys", keys)
        costs = validation.non_negatives("costs_ms", costs_ms, array.size)
        own = None if sizes is None else float64s("sizes", sizes, array.size)
        return cls(array, costs, np.zeros(array.size), own)

    def __len__(self) -> int:
        return self.keys.size

    def every(self, interval_ms: float) -> Self:
        """Let one record arrive every `interval_ms`."""
        interval = at_least_zero("interval_ms", interval_ms)
        return replace(self, arrivals_ms=np.arange(len(self), dtype=np.float64) * interval)

    def provisioned(self, instances: int, ratio: float = 1.0) -> Self:
        """Let records arrive at the rate that `instances` can sustain, divided by `ratio`.

        A ratio of 1.05 is 105% provisioning: instances are idle for 5 of 105 ms on average.
        """
        k = whole("instances", instances, least=1)
        mean_ms = float(self.costs_ms.mean()) if len(self) else 0.0
        return self.every(positive("ratio", ratio) * mean_ms / k)

    def arriving(self, arrivals_ms: npt.ArrayLike) -> Self:
        """Let records arrive at the times of a trace."""
        arrivals = float64s("arrivals_ms", arrivals_ms, len(self))
        if not np.isfinite(arrivals).all():
            raise PenstockError("arrivals_ms must be finite; got NaN or infinity")
        if (np.diff(arrivals) < 0).any():
            where = int(np.argmax(np.diff(arrivals) < 0)) + 1
            raise PenstockError(f"arrivals_ms must not decrease; they do at record {where}")
        return replace(self, arrivals_ms=arrivals)

    def part(self, start: int, stop: int | None = None) -> Self:
        """Return the records from `start` up to `stop`, with their times of arrival."""
        chosen = slice(start, stop)
        return replace(
            self,
            keys=self.keys[chosen],
            costs_ms=self.costs_ms[chosen],
            arrivals_ms=self.arrivals_ms[chosen],
            sizes=None if self.sizes is None else self.sizes[chosen],
        )

    def exact_costs(self) -> Exact:
        """Return the true cost of each key, as `FullKnowledge` needs it."""
        keys, first = np.unique(self.keys, return_index=True)
        return Exact(keys, self.costs_ms[first])


class Workload(Protocol):
    """A source of streams: the same seed gives the same stream."""

    def stream(self, seed: int) -> Stream:
        """Draw a stream."""


@dataclass(frozen=True)
class Synthetic:
    """The synthetic streams of the POSG paper, section V-A.

    Keys are drawn from a Zipf distribution. `cost_values` costs between `min_cost_ms` and
    `max_cost_ms` are each given to the same number of keys, chosen at random.

    Attributes:
        records: m, length of the stream.
        distinct: n, number of keys.
        exponent: exponent of the Zipf distribution; 0 is the uniform distribution.
        cost_values: w_n, number of different costs.
        min_cost_ms: w_min, smallest cost.
        max_cost_ms: w_max, largest cost.
        steps: whether the costs have a constant difference or a constant ratio (geometric).

    Example:
        >>> stream = Synthetic(records=1000, exponent=1.5).stream(seed=1)
        >>> len(stream), float(stream.costs_ms.min()), float(stream.costs_ms.max()) <= 64
        (1000, 1.0, True)
    """

    records: int = 32_768
    distinct: int = 4_096
    exponent: float = 1.0
    cost_values: int = 64
    min_cost_ms: float = 1.0
    max_cost_ms: float = 64.0
    steps: Literal["constant", "geometric"] = "constant"

    def __post_init__(self) -> None:
        whole("records", self.records, least=1)
        whole("distinct", self.distinct, least=1)
        at_least_zero("exponent", self.exponent)
        whole("cost_values", self.cost_values, least=1, most=self.distinct)
        positive("min_cost_ms", self.min_cost_ms)
        if positive("max_cost_ms", self.max_cost_ms) < self.min_cost_ms:
            raise PenstockError(
                f"max_cost_ms must be >= min_cost_ms = {self.min_cost_ms:g}; "
                f"got {self.max_cost_ms:g}"
            )
        known("steps", self.steps, ("constant", "geometric"))

    def stream(self, seed: int) -> Stream:
        """Draw the keys of the records, and the cost of each key."""
        rng = np.random.default_rng(whole("seed", seed, least=0))
        keys = zipf_keys(rng, self.records, self.distinct, exponent=self.exponent)
        space = np.linspace if self.steps == "constant" else np.geomspace
        values = space(self.min_cost_ms, self.max_cost_ms, self.cost_values)
        costs = rng.permutation(np.resize(values, self.distinct))
        return Stream.of(keys, costs[keys])


@dataclass(frozen=True)
class Application:
    """A stand-in for the tweets of the POSG paper's application, section V-C.

    The tweets are not public, but the papers describe them: 500,000 records and 35,000 entities,
    of which the most frequent one has a share of 0.065. Three classes of entities cost 25 (media),
    5 (politicians) and 1 ms (others). The papers do not report the shares of the classes. The
    shares here give the mean cost of 9.7 ms and the 36% of records of 1 ms of the LAS paper.

    Attributes:
        records: length of the stream.
        distinct: number of entities.
        top_share: share of the most frequent entity.
        costs_ms: cost of each class.
        shares: expected share of each class.
    """

    records: int = 500_000
    distinct: int = 35_000
    top_share: float = 0.065
    costs_ms: tuple[float, ...] = (25.0, 5.0, 1.0)
    shares: tuple[float, ...] = (0.307, 0.333, 0.36)

    def __post_init__(self) -> None:
        whole("records", self.records, least=1)
        whole("distinct", self.distinct, least=2)
        between("top_share", self.top_share, 1 / self.distinct, 1)
        validation.non_negatives("costs_ms", self.costs_ms, len(self.costs_ms))
        together = len(self.costs_ms) == len(self.shares) and abs(sum(self.shares) - 1) < 1e-6
        if not together or min(self.shares) < 0:
            raise PenstockError(f"shares must be one per cost and sum to 1; got {self.shares}")

    def stream(self, seed: int) -> Stream:
        """Draw the entities of the records, and the class of each entity."""
        rng = np.random.default_rng(whole("seed", seed, least=0))
        exponent = zipf_exponent(self.top_share, self.distinct)
        keys = zipf_keys(rng, self.records, self.distinct, exponent=exponent)
        costs = rng.choice(self.costs_ms, size=self.distinct, p=self.shares)
        return Stream.of(keys, costs[keys])


@dataclass(frozen=True)
class HeavyTailed:
    r"""Records whose costs differ between keys and within a key, as calls to a service do.

    The cost of a key is $\min(least + scale \cdot P, most)$, with $P$ from a Pareto (Lomax)
    distribution. The cost of a record is that of its key times $e^{s Z}$, with $Z$ standard normal.

    Attributes:
        spread: s, standard deviation of the logarithm of costs within a key, >= 0.
        records: number of records of the stream.
        distinct: number of keys.
        exponent: exponent of the Zipf distribution of keys.
        least_ms: smallest cost of a key.
        scale_ms: scale of the Pareto distribution of the costs of keys.
        shape: shape of that distribution, > 0; the tail is heavier for smaller ones.
        most_ms: largest cost of a key.
        keyed: whether records keep their keys; otherwise they get the key of another record, so
            that keys tell nothing about the same costs.

    Example:
        >>> stream = HeavyTailed(spread=0.5, records=1_000).stream(seed=0)
        >>> len(stream), bool(stream.costs_ms.max() > 20 * np.median(stream.costs_ms))
        (1000, True)
    """

    spread: float = 0.5
    records: int = 20_000
    distinct: int = 4_096
    exponent: float = 1.0
    least_ms: float = 1.0
    scale_ms: float = 5.0
    shape: float = 1.3
    most_ms: float = 1_000.0
    keyed: bool = True

    def __post_init__(self) -> None:
        at_least_zero("spread", self.spread)
        whole("records", self.records, least=0)
        whole("distinct", self.distinct, least=1)
        at_least_zero("exponent", self.exponent)
        at_least_zero("least_ms", self.least_ms)
        at_least_zero("scale_ms", self.scale_ms)
        positive("shape", self.shape)
        positive("most_ms", self.most_ms)

    def stream(self, seed: int) -> Stream:
        """Draw the costs of keys, the keys of records, and the factor of each record."""
        rng = np.random.default_rng(seed)
        of_keys_ms = self.least_ms + self.scale_ms * rng.pareto(self.shape, self.distinct)
        keys = zipf_keys(rng, self.records, self.distinct, exponent=self.exponent)
        factors = np.exp(self.spread * rng.standard_normal(self.records))
        costs_ms = np.minimum(of_keys_ms, self.most_ms)[keys] * factors
        return Stream.of(keys if self.keyed else rng.permutation(keys), costs_ms)


@dataclass(frozen=True)
class BySizes:
    r"""Records whose costs follow their sizes, as those of most real functions do.

    The cost of a record of size $S$ is $a + b S e^{s Z}$, with $Z$ standard normal, and $S$ from a
    Pareto (Lomax) distribution. It does not depend on keys.

    Attributes:
        records: number of records of the stream.
        distinct: number of keys, drawn with equal probabilities.
        base_ms: a, cost of a record of size 0.
        per_unit_ms: b, cost of a unit of size.
        spread: s, standard deviation of the logarithm of the cost of a unit, >= 0.
        mean_size: mean size of a record.
        shape: shape of the distribution of sizes, > 1; the tail is heavier for smaller ones.

    Example:
        >>> stream = BySizes(records=1_000).stream(seed=0)
        >>> bool(np.corrcoef(stream.sizes, stream.costs_ms)[0, 1] > 0.7)
        True
    """

    records: int = 20_000
    distinct: int = 100
    base_ms: float = 1.0
    per_unit_ms: float = 0.01
    spread: float = 0.3
    mean_size: float = 1_000.0
    shape: float = 2.5

    def __post_init__(self) -> None:
        whole("records", self.records, least=0)
        whole("distinct", self.distinct, least=1)
        at_least_zero("base_ms", self.base_ms)
        at_least_zero("per_unit_ms", self.per_unit_ms)
        at_least_zero("spread", self.spread)
        positive("mean_size", self.mean_size)
        if positive("shape", self.shape) <= 1:
            raise PenstockError(f"shape must be > 1, so that sizes have a mean; got {self.shape:g}")

    def stream(self, seed: int) -> Stream:
        """Draw keys, sizes and costs."""
        rng = np.random.default_rng(whole("seed", seed, least=0))
        keys = rng.integers(0, self.distinct, self.records)
        sizes = self.mean_size * (self.shape - 1) * rng.pareto(self.shape, self.records)
        costs_ms = costs_by_size(
            rng, sizes, self.base_ms, per_unit_ms=self.per_unit_ms, spread=self.spread
        )
        return Stream.of(keys, costs_ms, sizes)


def costs_by_size(
    rng: np.random.Generator,
    sizes: Float64,
    base_ms: float,
    *,
    per_unit_ms: float,
    spread: float,
) -> Float64:
    """Draw the costs of records of these sizes: $a + b S e^{s Z}$ (see `BySizes`)."""
    factors = np.exp(spread * rng.standard_normal(sizes.size))
    costs_ms: Float64 = base_ms + per_unit_ms * sizes * factors
    return costs_ms


def zipf_keys(rng: np.random.Generator, records: int, distinct: int, *, exponent: float) -> Int64:
    """Draw keys 0..distinct-1, key t with a probability proportional to (t + 1)**-exponent."""
    return drawn_keys(rng, records, _zipf_weights(distinct, exponent))


def drawn_keys(rng: np.random.Generator, records: int, weights: Float64) -> Int64:
    """Draw keys with probabilities proportional to their weights."""
    cumulated = np.cumsum(weights)
    drawn = rng.random(records) * cumulated[-1]
    keys: Int64 = np.searchsorted(cumulated, drawn, side="right").astype(np.int64)
    return keys


@lru_cache
def zipf_exponent(top_share: float, distinct: int) -> float:
    """Find the exponent that gives the most frequent of `distinct` keys this share."""
    low, high = 0.0, 16.0
    for _ in range(60):
        middle = (low + high) / 2
        if 1 / _zipf_weights(distinct, middle).sum() < top_share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _zipf_weights(distinct: int, exponent: float) -> Float64:
    return np.arange(1, distinct + 1, dtype=np.float64) ** -exponent
