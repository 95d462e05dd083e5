"""Graphs of key groups: connected sets, and balanced cuts by METIS."""

from typing import Any

import numpy as np

from penstock.extras import needs
from penstock.policies.kernels import Float64, Int64, kernel
from penstock.policies.placement.cluster import Traffic

# METIS takes whole numbers: weights are scaled to this total.
_SCALE = 10_000_000


def connected(count: int, one: Int64, other: Int64) -> Int64:
    """Return the connected set of each vertex, 0, 1, ...; every pair is in one set.

    Example:
        >>> connected(4, np.array([0, 1]), np.array([3, 2]))
        array([0, 1, 1, 0])
    """
    roots = _roots(count, np.array(one, dtype=np.int64), np.array(other, dtype=np.int64))
    labels: Int64 = np.unique(roots, return_inverse=True)[1].astype(np.int64)
    return labels


@kernel
def _roots(count: int, one: Int64, other: Int64) -> Int64:
    parent = np.arange(count)
    for i in range(one.size):
        a, b = one[i], other[i]
        while parent[a] != a:
            a = parent[a]
        while parent[b] != b:
            b = parent[b]
        parent[max(a, b)] = min(a, b)
    for vertex in range(count):
        parent[vertex] = parent[parent[vertex]]
    return parent


def cut(weight: Float64, edges: Traffic, shares: Float64, seed: int) -> Int64:
    """Return the part of each vertex, for parts with these shares and little traffic between them.

    METIS needs edges, and may return fewer parts. In both cases the heaviest vertices are placed
    first, each into the part that lacks most.

    Args:
        weight: weight of each vertex.
        edges: traffic between vertices.
        shares: share of the weight for each part, in any unit.
        seed: seed of METIS.
    """
    parts = shares.size
    if parts < 2 or weight.size <= parts:
        return np.arange(weight.size, dtype=np.int64) % max(parts, 1)
    starts, ends, volume = _adjacency(weight.size, edges)
    if not ends.size:
        return _evenly(weight, shares)
    # Imported here: the import takes a while, and most plans do not need it.
    pymetis: Any = needs("pymetis", extra="solvers", what="this placer")
    adjacency = pymetis.CSRAdjacency(starts, ends)
    found = pymetis.part_graph(
        parts,
        adjacency,
        vweights=_scaled(weight),
        eweights=_scaled(volume),
        tpwgts=(shares / shares.sum()).tolist(),
        options=pymetis.Options(seed=seed % 2**31, ufactor=10),
    )
    labels: Int64 = np.asarray(found.vertex_part, dtype=np.int64)
    return labels if np.unique(labels).size == parts else _evenly(weight, shares)


def _adjacency(count: int, edges: Traffic) -> tuple[Int64, Int64, Float64]:
    """Return the neighbours of each vertex, in both directions and each once.

    These are the first position of each vertex, the neighbours, and the traffic with each.
    """
    sends = (edges.source != edges.target) & (edges.volume > 0)
    a, b, volume = edges.source[sends], edges.target[sends], edges.volume[sends]
    codes, which = np.unique(np.concatenate((a * count + b, b * count + a)), return_inverse=True)
    total = np.zeros(codes.size)
    np.add.at(total, which, np.concatenate((volume, volume)))
    starts = np.searchsorted(codes // count, np.arange(count + 1)).astype(np.int64)
    return starts, codes % count, total


def _scaled(values: Float64) -> Int64:
    total = float(values.sum())
    scaled = values * (_SCALE / total) if total else np.ones(values.size)
    whole: Int64 = np.maximum(1, np.rint(scaled)).astype(np.int64)
    return whole


def _evenly(weight: Float64, shares: Float64) -> Int64:
    labels = np.empty(weight.size, dtype=np.int64)
    filled, counts = np.zeros(shares.size), np.zeros(shares.size)
    for vertex in np.argsort(-weight, kind="stable"):
        part = np.lexsort((counts / shares, (filled + weight[vertex]) / shares))[0]
        labels[vertex] = part
        filled[part] += weight[vertex]
        counts[part] += 1
    return labels
