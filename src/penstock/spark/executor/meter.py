"""What a task of an operator measures: its records, and the cost of each of them."""

from typing import TYPE_CHECKING

import numpy as np

from penstock.control.reports import ExecutionReport, pack_costs
from penstock.policies.feedback import Feedback
from penstock.policies.kernels import Float64, Int64
from penstock.spark.executor.reporting import Reports, send
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
        reports: accumulator that carries reports to the driver.
    """

    def __init__(self, spec: OperatorSpec, reports: "Accumulator[Reports]") -> None:
        self._reports = reports
        self._task = task_id(spec)
        self._tracker = spec.policies().measuring.tracker(self._task.partition)
        self._messages: list[Feedback] = []
        self._records = 0
        self._busy_ms = 0.0
        self._waited_ms = 0.0
        self._waits = 0
        self.emitted = 0

    def one_by_one(self, keys: Int64, costs_ms: Float64) -> None:
        """Count records whose costs were measured one by one."""
        self._count(keys.size, float(costs_ms.sum()))
        self._learn(keys, costs_ms)

    def together(self, keys: Int64, cost_ms: float) -> None:
        """Count records whose cost was measured together: each gets the same share."""
        self._count(keys.size, cost_ms)
        sample = keys[:: max(1, -(-keys.size // _SAMPLE))]
        self._learn(sample, np.full(sample.size, cost_ms / max(1, keys.size)))

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

    def report(self) -> None:
        """Send the measurements of this task to the driver."""
        if self._tracker is not None and self._records:
            self._messages += self._tracker.finish()
        report = ExecutionReport(
            task=self._task,
            records=self._records,
            emitted=self.emitted,
            busy_ms=self._busy_ms,
            executor=executor_name(),
            costs=pack_costs(self._messages),
            waited_ms=self._waited_ms,
            waits=self._waits,
        )
        send(self._reports, report)

    def _count(self, records: int, busy_ms: float) -> None:
        self._records += records
        self._busy_ms += busy_ms

    def _learn(self, keys: Int64, costs_ms: Float64) -> None:
        if self._tracker is not None:
            self._messages += self._tracker.execute(keys, costs_ms, float(costs_ms.sum()))
