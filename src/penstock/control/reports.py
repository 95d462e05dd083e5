"""What executors report to the driver, as plain text and bytes."""

import json
import zlib
from dataclasses import asdict, dataclass, replace

from penstock.errors import PenstockError
from penstock.policies.feedback import Feedback
from penstock.policies.learner import Learner

# As it travels: JSON, and measured costs as compressed arrays.
Packed = tuple[str, bytes]


@dataclass(frozen=True)
class Place:
    """Which task of which operator this is about.

    Attributes:
        operator: identity of the balanced operator.
        query: identity of the streaming query; empty for a batch job.
        batch: number of the micro-batch; the stage's for a batch job.
        partition: of the stage: the router's number, or the instance.
    """

    operator: str
    query: str
    batch: str
    partition: int


@dataclass(frozen=True)
class RouterReport:
    """One router task.

    Attributes:
        place: which task.
        records: routed.
        router_ms: time spent on routing, with fetching the snapshot.
        snapshot_age_ms: how old the snapshot was; NaN without one.
        fallback: why records were routed by shuffle; empty if they were not.
        shed: records that were not admitted.
        planned_ms: how long admitted records were expected to wait, in total.
        protected: records that could not be shed.
        undated: records without a time of arrival; they count as if they had just arrived.
        early: records that arrived in the future, as clocks differ; they count likewise.
    """

    place: Place
    records: int
    router_ms: float
    snapshot_age_ms: float
    fallback: str = ""
    shed: int = 0
    planned_ms: float = 0.0
    protected: int = 0
    undated: int = 0
    early: int = 0


@dataclass(frozen=True)
class ExecutionReport:
    """One task of the operator.

    Attributes:
        place: which task; its partition is the instance.
        records: executed.
        emitted: records returned by the function.
        busy_ms: time spent in the function.
        executor: where it ran.
        costs: measured costs, as `pack_costs` has packed them; empty if there are none.
        waited_ms: time from arrival to execution, in total; only measured to shed.
        waits: how many records that is about.
    """

    place: Place
    records: int
    emitted: int
    busy_ms: float
    executor: str
    costs: bytes = b""
    waited_ms: float = 0.0
    waits: int = 0


Report = RouterReport | ExecutionReport
_KINDS: dict[str, type[RouterReport] | type[ExecutionReport]] = {
    "router": RouterReport,
    "execution": ExecutionReport,
}


def pack(report: Report) -> Packed:
    """Turn a report into text and bytes."""
    costs = b""
    if isinstance(report, ExecutionReport):
        costs = report.costs
        report = replace(report, costs=b"")
    fields = asdict(report)
    fields.pop("costs", None)
    kind = next(name for name, cls in _KINDS.items() if isinstance(report, cls))
    return json.dumps({"kind": kind, **fields}), costs


def unpack(packed: Packed) -> Report:
    """Read a report; anything else is refused."""
    try:
        text, costs = packed
        fields = json.loads(text)
        cls = _KINDS[fields.pop("kind")]
        fields["place"] = Place(**fields["place"])
        if cls is ExecutionReport:
            fields["costs"] = bytes(costs)
        return cls(**fields)
    except (TypeError, ValueError, KeyError) as error:
        raise PenstockError(f"not a report: {str(packed)[:80]!r} ({error})") from None


def pack_costs(messages: list[Feedback]) -> bytes:
    """Pack the measured costs of an instance's messages; empty if there are none."""
    models = [message.costs for message in messages if message.costs is not None]
    if not models:
        return b""
    for model in models[1:]:
        models[0].merge(model)
    return zlib.compress(models[0].snapshot(), 1)


def unpack_costs(data: bytes, policy: Learner, instance: int) -> Feedback | None:
    """Read measured costs for the policy whose tracker has measured them."""
    model = policy.measurements()
    if not data or model is None:
        return None
    try:
        model.restore(zlib.decompress(data))
    except zlib.error as error:
        raise PenstockError(f"measured costs cannot be read ({error})") from None
    return Feedback(instance, model)
