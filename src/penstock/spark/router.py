"""The routing stage: keys in, instances out, with the driver's newest snapshot."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.control import Snapshot
from penstock.control.reports import Place, RouterReport
from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping, RoundRobin
from penstock.spark.channel import Address, ControlClient
from penstock.spark.tasks import OperatorSpec, Reports, place, send

if TYPE_CHECKING:
    from pyspark import Accumulator

# Of this Python worker, for all tasks it will run.
_clients: dict[Address, ControlClient] = {}
_snapshots: dict[tuple[str, str], Snapshot] = {}

Keys = Iterator[pa.Array]


def router(spec: OperatorSpec, reports: "Accumulator[Reports]") -> Callable[[Keys], Keys]:
    """Return the function that routes the keys of one task."""

    def route(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        here = place(spec)
        start = time.perf_counter()
        grouping, age_ms, fallback = _grouping(spec, here)
        grouping.begin(here.partition)
        spent = time.perf_counter() - start
        records = 0
        for keys in batches:
            start = time.perf_counter()
            instances = pa.array(grouping.route_together(keys.to_numpy(zero_copy_only=False)))
            spent += time.perf_counter() - start
            records += len(keys)
            yield instances
        send(reports, RouterReport(here, records, 1000 * spent, age_ms, fallback))

    return route


def _grouping(spec: OperatorSpec, here: Place) -> tuple[Grouping, float, str]:
    """Return the policy with what the driver has learnt, or shuffle if there is no answer."""
    client = _clients.setdefault(spec.address, ControlClient(spec.address))
    request = {"operator": spec.identity, "query": here.query, "batch": here.batch}
    known = spec.identity, here.query
    grouping = spec.grouping()
    if not grouping.learns:
        return grouping, 0.0, ""
    try:
        snapshot = client.fetch(request, _snapshots.get(known))
        grouping.restore(snapshot.data)
    except (OSError, PenstockError) as error:
        return RoundRobin(grouping.instances), float("nan"), str(error)
    _snapshots[known] = snapshot
    return grouping, 1000 * (time.time() - snapshot.created_s), ""
