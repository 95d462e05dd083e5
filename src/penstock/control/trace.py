"""The form of a trace: one Parquet file for each batch, with sampled records and its numbers.

A record is a hash of its key, its size, its measured cost and its arrival; its contents are never
written. The numbers of the batch are JSON in the metadata of the file.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

import numpy as np
import pyarrow as pa

from penstock.control.reports import ExecutionReport, Report
from penstock.control.samples import unpack_sample
from penstock.control.stats import FinishedBatch

VERSION = 1
# Name of the metadata of a file that has the numbers of its batch.
METADATA = b"penstock_trace"

SCHEMA = pa.schema(
    {
        "batch": pa.int64(),
        "task": pa.int32(),
        "executor": pa.dictionary(pa.int32(), pa.string()),
        "key": pa.int64(),
        "size": pa.float64(),
        "cost_ms": pa.float64(),
        "arrival_ms": pa.float64(),
        "shed": pa.bool_(),
        "weight": pa.float64(),
    }
)


@dataclass(frozen=True, kw_only=True)
class BatchNumbers:
    """The numbers of a recorded batch.

    Attributes:
        operator: name of the operator.
        query: name of the query.
        batch: number of the batch; name of the SQL execution for a batch job.
        began_ms: time at which its first router started, in milliseconds since 1970.
        duration_ms: time from there to the last report; NaN if it is unknown.
        received: number of records that it has received.
        shed: number of records that were shed.
        instances: number of instances that got records.
        servers: number of records that an instance executes at a time.
        grouping: registered name of the grouping.
        in_front: whether the operator only sheds: its records then have no costs.
        executors: largest number of tasks that each executor ran at a time.
        trigger_ms: interval between the starts of batches; None if they follow one another.
        before: number and whole duration of the batch before it, as far as they are known.
        version: version of the form.
    """

    operator: str
    query: str
    batch: str
    began_ms: float
    duration_ms: float
    received: int
    shed: int
    instances: int
    servers: int = 1
    grouping: str = ""
    in_front: bool = False
    executors: dict[str, int] = field(default_factory=dict)
    trigger_ms: float | None = None
    before: tuple[str, float] | None = None
    version: int = VERSION

    @property
    def number(self) -> int:
        """Number of the batch, or of the SQL execution; 0 without one."""
        digits = self.batch.rpartition(" ")[2]
        return int(digits) if digits.isdecimal() else 0


def numbers_of(
    batch: FinishedBatch,
    reports: Iterable[Report],
    *,
    grouping: str,
    in_front: bool,
    trigger_ms: float | None = None,
    before: tuple[str, float] | None = None,
) -> BatchNumbers:
    """Return the numbers of a finished batch; see `BatchNumbers`."""
    executed = [one for one in reports if isinstance(one, ExecutionReport)]
    return BatchNumbers(
        operator=batch.operator,
        query=batch.query_name,
        batch=batch.batch,
        began_ms=1000 * batch.finished_s - _or_zero(batch.duration_ms),
        duration_ms=batch.duration_ms,
        received=batch.received,
        shed=batch.shed,
        instances=batch.active,
        servers=max((one.servers for one in executed), default=1),
        grouping=grouping,
        in_front=in_front,
        executors=_tasks_at_a_time(executed),
        trigger_ms=trigger_ms,
        before=before,
    )


def _or_zero(number: float) -> float:
    return 0.0 if math.isnan(number) else number


def _tasks_at_a_time(reports: list[ExecutionReport]) -> dict[str, int]:
    """Return the largest number of tasks that ran at a time, for each executor."""
    moments: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for one in reports:
        moments[one.executor] += [(one.started_s, 1), (one.ended_s, -1)]
    found = {}
    for executor, own in moments.items():
        # A task that ends when another one starts comes first.
        found[executor] = max(1, int(np.cumsum([step for _, step in sorted(own)]).max()))
    return dict(sorted(found.items()))


def table_of(numbers: BatchNumbers, reports: Iterable[Report]) -> pa.Table:
    """Return the sampled records of a batch, with its numbers as metadata."""
    parts = []
    for one in sorted(reports, key=lambda report: (report.task.use, report.task.partition)):
        sample = unpack_sample(one.sample)
        count = sample.keys.size
        executor = one.executor if isinstance(one, ExecutionReport) else ""
        columns = {
            "batch": np.full(count, numbers.number),
            "task": np.full(count, one.task.partition, dtype=np.int32),
            "executor": pa.array([executor] * count).dictionary_encode(),
            "key": sample.keys,
            "size": sample.sizes,
            "cost_ms": sample.costs_ms,
            "arrival_ms": sample.arrival_ms,
            "shed": sample.shed,
            "weight": np.full(count, sample.weight),
        }
        parts.append(pa.table(columns, schema=SCHEMA))
    whole = pa.concat_tables(parts).unify_dictionaries() if parts else SCHEMA.empty_table()
    return whole.replace_schema_metadata({METADATA: json.dumps(asdict(numbers)).encode()})
