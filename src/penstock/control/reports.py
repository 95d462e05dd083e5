"""Reports of tasks to the driver, as plain text and bytes."""

import json
import zlib
from dataclasses import asdict, dataclass

from penstock.control.key_names import Names
from penstock.errors import PenstockError, first_line
from penstock.policies.feedback import Feedback
from penstock.policies.learner import Learner

# A report on its way: JSON; measured costs and sampled records as compressed arrays.
Packed = tuple[str, bytes]


@dataclass(frozen=True)
class TaskId:
    """The identity of a task.

    Attributes:
        operator: identity of the operator.
        query: identity of the streaming query; empty for a batch job.
        batch: number of the micro-batch; name of the SQL execution for a batch job.
        partition: number of a router, or of an instance.
        use: identity of the frame that the operator is applied to: a query may use an operator
            several times.
        run: run of the query; empty if it is unknown.
    """

    operator: str
    query: str
    batch: str
    partition: int
    use: str = ""
    run: str = ""


@dataclass(frozen=True)
class RouterReport:
    """The report of a router task.

    Attributes:
        task: identity of the task.
        records: number of records that it has routed.
        router_ms: time spent on routing, including the fetch of the snapshot.
        snapshot_age_ms: age of the snapshot; NaN without one.
        fallback: reason for routing by shuffle; empty if the router did not.
        shed: number of records that were not admitted.
        planned_ms: expected waiting time of the admitted records, in total.
        protected: number of records that could not be shed.
        undated: number of records without a time of arrival; they count as just arrived.
        early: number of records that arrive in the future, because clocks differ; they count as
            just arrived.
        unsized: number of records without a size; they count as records of mean size.
        sample: some of its records, if they are recorded, packed by a `Sampler`.
    """

    task: TaskId
    records: int
    router_ms: float
    snapshot_age_ms: float
    fallback: str = ""
    shed: int = 0
    planned_ms: float = 0.0
    protected: int = 0
    undated: int = 0
    early: int = 0
    unsized: int = 0
    sample: bytes = b""


@dataclass(frozen=True)
class ExecutionReport:
    """The report of one task of the operator.

    Attributes:
        task: identity of the task.
        records: number of records that it has executed without an error.
        emitted: number of records that the function has returned.
        busy_ms: time spent in the function, over the number of records at a time.
        executor: name of the executor.
        costs: measured costs, packed by `pack_costs`; empty if there are none.
        waited_ms: time from arrival to execution, in total; measured only if the operator sheds.
        waits: number of records with a measured waiting time.
        started_s: time at which its first record started, in seconds since 1970.
        ended_s: time at which its last record ended, in seconds since 1970.
        stalled_s: longest time for which an async function has blocked its event loop.
        failed: number of records on which the function failed, if that does not fail the task.
        errors: some of these failures: the record's key and the error.
        servers: number of records that the instance executes at a time.
        names: hashes and names of keys that the driver has asked for; mostly none.
        sample: some of its records, if they are recorded, packed by a `Sampler`.
    """

    task: TaskId
    records: int
    emitted: int
    busy_ms: float
    executor: str
    costs: bytes = b""
    waited_ms: float = 0.0
    waits: int = 0
    started_s: float = 0.0
    ended_s: float = 0.0
    stalled_s: float = 0.0
    failed: int = 0
    errors: tuple[str, ...] = ()
    servers: int = 1
    names: Names = ()
    sample: bytes = b""


Report = RouterReport | ExecutionReport
_KINDS: dict[str, type[RouterReport] | type[ExecutionReport]] = {
    "router": RouterReport,
    "execution": ExecutionReport,
}

# Errors of text that is not JSON, or whose values have other types than those of a report.
_UNREADABLE = (
    AttributeError,
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)


def pack(report: Report) -> Packed:
    """Turn a report into text and bytes."""
    fields = asdict(report)
    costs, sample = fields.pop("costs", b""), fields.pop("sample")
    kind = next(name for name, cls in _KINDS.items() if isinstance(report, cls))
    return json.dumps({"kind": kind, "sampled": len(sample), **fields}), costs + sample


def unpack(packed: Packed) -> Report:
    """Read a report; refuse anything else."""
    try:
        text, data = packed
        fields = json.loads(text)
        cls = _KINDS[fields.pop("kind")]
        fields["task"] = TaskId(**fields["task"])
        end = len(data) - int(fields.pop("sampled", 0))
        fields["sample"] = bytes(data[end:])
        if cls is ExecutionReport:
            fields["costs"] = bytes(data[:end])
            fields["errors"] = tuple(map(str, fields["errors"]))
            fields["names"] = tuple((int(key), str(name)) for key, name in fields["names"])
        return cls(**fields)
    except _UNREADABLE as error:
        reason = first_line(error)
        raise PenstockError(f"not a report: {str(packed)[:80]!r} ({reason})") from None


def pack_costs(messages: list[Feedback]) -> bytes:
    """Pack the measured costs of an instance's messages; return nothing if there are none."""
    models = [message.costs for message in messages if message.costs is not None]
    if not models:
        return b""
    for model in models[1:]:
        models[0].merge(model)
    return zlib.compress(models[0].snapshot(), 1)


def unpack_costs(data: bytes, policy: Learner, instance: int) -> Feedback | None:
    """Read measured costs, for the policy whose tracker has measured them."""
    model = policy.measurements()
    if not data or model is None:
        return None
    try:
        model.restore(zlib.decompress(data))
    except zlib.error as error:
        raise PenstockError(f"measured costs cannot be read ({error})") from None
    return Feedback(instance, model)
