"""Measurements of a task of an operator: its records, and the cost of each of them."""

import time
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.reports import ExecutionReport, pack_costs
from penstock.control.samples import Sampler
from penstock.policies.feedback import Feedback, measure
from penstock.policies.kernels import Float64, Int64
from penstock.spark.executor.key_names import NamesSought
from penstock.spark.executor.reporting import Reports, send
from penstock.spark.executor.router import wanted_names
from penstock.spark.executor.spec import OperatorSpec
from penstock.spark.executor.task import executor_name, task_id

if TYPE_CHECKING:
    from pyspark import Accumulator

# Records of a batch function whose cost is learnt, of each Arrow batch. All of them get the same
# share of the cost, so an even sample teaches as much as all of them.
_SAMPLE = 1_000


class Meter:
    """Measures one task, and reports when the task has succeeded.

    Args:
        spec: spec of the operator.
        instance: number of the instance.
        reports: accumulator that carries reports to the driver.
        servers: number of records that the instance executes at a time.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        instance: int,
        reports: "Accumulator[Reports]",
        *,
        servers: int = 1,
    ) -> None:
        self._servers = servers
        self._reports = reports
        self._task = task_id(spec, instance)
        self.names = NamesSought(wanted_names(spec, self._task))
        measuring = spec.policies().measuring
        self._tracker = measuring.tracker(instance)
        self._together = measuring.together and not measuring.sized
        self._sampler = Sampler(spec.record, seed=instance) if spec.record else None
        self._messages: list[Feedback] = []
        self._records = self._failed = 0
        self._errors: tuple[str, ...] = ()
        self._busy_ms = 0.0
        self._waited_ms = 0.0
        self._waits = 0
        self._started_s = self._ended_s = time.time()
        self._stalled_s = 0.0
        self.emitted = 0

    @property
    def executed(self) -> int:
        """Number of records that were executed so far, with or without an error."""
        return self._records + self._failed

    def one_by_one(
        self,
        keys: Int64,
        costs_ms: Float64,
        sizes: Float64 | None = None,
        *,
        arrival_ms: Float64 | None = None,
    ) -> None:
        """Count records whose costs were measured one by one."""
        self._count(keys.size, float(costs_ms.sum()))
        self._learn(keys, costs_ms, sizes)
        self._record(keys, costs_ms, sizes, arrival_ms=arrival_ms)

    def together(
        self,
        keys: Int64,
        cost_ms: float,
        sizes: Float64 | None = None,
        *,
        arrival_ms: Float64 | None = None,
    ) -> None:
        """Count records whose cost was measured together.

        Each gets the same share of it, or a share by its size. A policy that learns from whole
        calls gets all of them, because it counts the records of each key.
        """
        self._count(keys.size, cost_ms)
        step = 1 if self._together else max(1, -(-keys.size // _SAMPLE))
        sample = slice(None, None, step)
        shares_ms = cost_ms * _shares(keys.size, sizes)
        self._learn(keys[sample], shares_ms[sample], None if sizes is None else sizes[sample])
        self._record(keys, shares_ms, sizes, arrival_ms=arrival_ms)

    def failed(self, records: int, samples: tuple[str, ...]) -> None:
        """Count records on which the function failed; they were counted as executed before.

        Args:
            records: number of records.
            samples: some of the failures, for the journal.
        """
        self._records -= records
        self._failed += records
        self._errors = samples

    def waited(self, arrival_ms: Float64, started_ms: Float64 | float) -> None:
        """Count waiting times; records without a time of arrival have none.

        Args:
            arrival_ms: times of arrival, in milliseconds since 1970.
            started_ms: times at which the records were executed.
        """
        waits = np.maximum(started_ms - arrival_ms, 0.0)
        known = ~np.isnan(waits)
        self._waited_ms += float(waits[known].sum())
        self._waits += int(known.sum())

    def waited_since(self, arrival_ms: Float64 | None) -> None:
        """Count the waiting times of records that are executed now, if the operator sheds."""
        if arrival_ms is not None:
            self.waited(arrival_ms, 1000 * time.time())

    def stalled(self, stalled_s: float) -> None:
        """Note the longest time for which an async function has blocked its event loop."""
        self._stalled_s = max(self._stalled_s, stalled_s)

    def report(self) -> None:
        """Send the measurements of this task to the driver."""
        if self._tracker is not None and self.executed:
            self._messages += self._tracker.finish()
        report = ExecutionReport(
            task=self._task,
            records=self._records,
            emitted=self.emitted,
            busy_ms=self._busy_ms / self._servers,
            executor=executor_name(),
            costs=pack_costs(self._messages),
            waited_ms=self._waited_ms,
            waits=self._waits,
            started_s=self._started_s,
            ended_s=self._ended_s,
            stalled_s=self._stalled_s,
            failed=self._failed,
            servers=self._servers,
            errors=self._errors,
            names=self.names.found,
            sample=self._sampler.pack() if self._sampler is not None else b"",
        )
        send(self._reports, report)

    def _count(self, records: int, busy_ms: float) -> None:
        self._records += records
        self._busy_ms += busy_ms
        self._ended_s = time.time()

    def _learn(self, keys: Int64, costs_ms: Float64, sizes: Float64 | None) -> None:
        if self._tracker is not None:
            self._messages += measure(self._tracker, keys, costs_ms, sizes=sizes)

    def _record(
        self,
        keys: Int64,
        costs_ms: Float64,
        sizes: Float64 | None,
        *,
        arrival_ms: Float64 | None,
    ) -> None:
        if self._sampler is not None:
            self._sampler.add(keys, costs_ms=costs_ms, sizes=sizes, arrival_ms=arrival_ms)


def _shares(records: int, sizes: Float64 | None) -> Float64:
    """Return the shares of records in a cost; those of unknown size have the mean size."""
    if sizes is not None:
        known = (sizes >= 0) & np.isfinite(sizes)
        total = float(sizes[known].sum())
        if total > 0:
            filled = np.where(known, sizes, total / known.sum())
            shares: Float64 = filled / filled.sum()
            return shares
    return np.full(records, 1 / max(1, records))
