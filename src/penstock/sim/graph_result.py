"""The result of the simulation of a graph."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.policies.kernels import Float64, Int64
from penstock.policies.validation import between


@dataclass(frozen=True, eq=False)
class GraphResult:
    """Result of the simulation of a graph.

    Attributes:
        period_s: length of a period.
        rate_per_s: records that arrived at each source per second, by period.
        degrees: number of instances in each period, by operator.
        latency_s: mean time from arrival to the end of the records that were done, by period.
        latencies_s: time from arrival to the end of every piece of the stream that was done.
        amounts: number of records of every such piece.
        timed_out: number of records that were not done in time, and were replayed.
        instance_s: instances times seconds, over all operators.
        reconfigurations: number of plans that changed degrees.
        reasons: time and reason of each such plan, for a person.
    """

    period_s: float
    rate_per_s: Float64
    degrees: Mapping[str, Int64]
    latency_s: Float64
    latencies_s: Float64
    amounts: Float64
    timed_out: float
    instance_s: float
    reconfigurations: int
    reasons: tuple[str, ...]

    @property
    def mean_latency_s(self) -> float:
        """Mean time from arrival to the end; NaN if no record was done."""
        if not self.amounts.sum():
            return float("nan")
        return float(np.average(self.latencies_s, weights=self.amounts))

    def latency_quantile_s(self, quantile: float) -> float:
        """Time within which a share of the records was done; NaN if no record was done.

        Args:
            quantile: share of the records, in [0, 1].
        """
        between("quantile", quantile, 0, 1, closed="low high")
        if not self.amounts.sum():
            return float("nan")
        order = np.argsort(self.latencies_s)
        reached = np.cumsum(self.amounts[order])
        at = int(np.searchsorted(reached, quantile * reached[-1]))
        return float(self.latencies_s[order][min(at, order.size - 1)])
