"""Intervals of numbers that vary between batches, by resampling the batches."""

from typing import NamedTuple

import numpy as np

from penstock.policies.kernels import Float64

_SAMPLES = 2_000
_SEED = 0
# Bounds of an interval that holds in 95 of 100 cases.
_BOUNDS = (0.025, 0.975)


class Estimate(NamedTuple):
    """A number with its 95% interval.

    Attributes:
        mid: the number.
        low: lower bound.
        high: upper bound.
    """

    mid: float
    low: float
    high: float


class Batches(NamedTuple):
    """Values of batches; one entry of each array for each batch.

    Attributes:
        values: values, such as seconds.
        weights: what they are counted per: records, or 1 for each batch.
    """

    values: Float64
    weights: Float64

    @property
    def mean(self) -> float:
        """Values over weights."""
        return float(self.values.sum() / self.weights.sum())

    def resampled(self, rng: np.random.Generator) -> Float64:
        """Return the mean of each of many samples, in which batches are drawn again."""
        drawn = rng.integers(0, self.values.size, (_SAMPLES, self.values.size))
        means: Float64 = self.values[drawn].sum(axis=1) / self.weights[drawn].sum(axis=1)
        return means


def ratio(before: Batches, after: Batches) -> Estimate:
    """Return how many times as large values were before.

    Example:
        >>> ones = np.ones(20)
        >>> found = ratio(Batches(2 * ones, ones), Batches(ones, ones))
        >>> found
        Estimate(mid=2.0, low=2.0, high=2.0)
    """
    rng = np.random.default_rng(_SEED)
    ratios = before.resampled(rng) / np.maximum(after.resampled(rng), 1e-12)
    return _estimate(before.mean / max(after.mean, 1e-12), ratios)


def difference(before: Batches, after: Batches) -> Estimate:
    """Return by how much values were larger before."""
    rng = np.random.default_rng(_SEED)
    return _estimate(before.mean - after.mean, before.resampled(rng) - after.resampled(rng))


def _estimate(mid: float, samples: Float64) -> Estimate:
    low, high = np.quantile(samples, _BOUNDS)
    return Estimate(mid, float(low), float(high))
