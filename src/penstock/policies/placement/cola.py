"""COLA: a placement from scratch, by balanced graph partitioning."""

import numpy as np

from penstock.extras import refuse_missing
from penstock.policies.kernels import Int64
from penstock.policies.placement.base import Placer
from penstock.policies.placement.cluster import Cluster
from penstock.policies.placement.partitioning import cut
from penstock.policies.validation import whole


class Cola(Placer):
    r"""Cuts the graph of key groups into one part a worker, whatever the present placement is.

    Key groups are vertices, weighted by their load; edges are weighted by their traffic. METIS cuts
    the graph into parts whose loads are in proportion to the workers' capacities. The cut keeps the
    traffic between parts small:

    $$\min \sum_{k, m:\, part(k) \ne part(m)} out(k, m)$$

    It is a static optimizer: run in every period, it moves nearly every key group every time. It is
    a good way to place key groups at the start of a job, and a baseline afterwards.

    Args:
        seed: seed of the partitioning, >= 0.

    Example:
        >>> from penstock.policies.placement import Traffic
        >>> pairs = Traffic(source=[0, 1], target=[2, 3], volume=[5, 5])
        >>> cluster = Cluster([10] * 4, [0, 0, 1, 1], [1, 1], traffic=pairs)
        >>> plan = Cola().plan(cluster)
        >>> plan.collocation_before, plan.collocation_after, plan.distance_after
        (0.0, 1.0, 0.0)

    References:
        R. Khandekar et al., "COLA: Optimizing stream processing applications via graph
        partitioning", Middleware 2009, as described in ALBIC (Madsen et al., 2017), section 2.1.

    Deviations:
        METIS makes all parts at once instead of splitting one part again and again. There is no
        budget, and only the bottleneck resource counts.
    """

    name = "cola"

    def __init__(self, seed: int = 0) -> None:
        refuse_missing("pymetis", extra="solvers", what="Cola")
        super().__init__()
        self.seed = whole("seed", seed, least=0)

    def place(self, cluster: Cluster) -> tuple[Int64, str]:
        """Cut the graph, and assign the parts to the workers in their order."""
        live = np.flatnonzero(cluster.live)
        load = cluster.load[:, cluster.bottleneck]
        part = cut(load, cluster.traffic, cluster.capacity[live], self.seed)
        return live[part], ""
