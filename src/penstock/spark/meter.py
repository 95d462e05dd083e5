"""What the tasks of an operator measure: how many records, and what each of them cost."""

from typing import TYPE_CHECKING

import numpy as np

from penstock.control.reports import ExecutionReport, pack_costs
from penstock.policies.feedback import Feedback
from penstock.policies.kernels import Float64, Int64
from penstock.spark.tasks import OperatorSpec, Reports, executor, place, send

if TYPE_CHECKING:
    from pyspark import Accumulator

# Records of a batch function whose cost is learnt, of each Arrow batch: an even sample of them
# tells as much as all, as all of them get the same share.
_SAMPLE = 1_000


class Meter:
    """Measures one task, and reports when it has succeeded.

    Args:
        spec: of the operator.
        reports: what carries reports to the driver.
    """

    def __init__(self, spec: OperatorSpec, reports: "Accumulator[Reports]") -> None:
        self._reports = reports
        self._place = place(spec)
        self._tracker = spec.policies().measuring.tracker(self._place.partition)
        self._messages: list[Feedback] = []
        self._records = 0
        self._busy_ms = 0.0
        self._waited_ms = 0.0
        self._waits = 0
        self.emitted = 0

    def one_by_one(self, keys: Int64, costs_ms: Float64) -> None:
        """Take note of records that have cost so much each."""
        self._count(keys.size, float(costs_ms.sum()))
        self._learn(keys, costs_ms)

    def together(self, keys: Int64, cost_ms: float) -> None:
        """Take note of records that have cost so much together: each gets the same share."""
        self._count(keys.size, cost_ms)
        sample = keys[:: max(1, -(-keys.size // _SAMPLE))]
        self._learn(sample, np.full(sample.size, cost_ms / max(1, keys.size)))

    def report(self) -> None:
        """Tell the driver what this task has done."""
        if self._tracker is not None and self._records:
            self._messages += self._tracker.finish()
        costs = pack_costs(self._messages)
        done = self._records, self.emitted, self._busy_ms
        waited = self._waited_ms, self._waits
        send(self._reports, ExecutionReport(self._place, *done, executor(), costs, *waited))

    def waited(self, arrival_ms: Float64, started_ms: Float64 | float) -> None:
        """Take note of how long records have waited; of those without an arrival nothing is known.

        Args:
            arrival_ms: when they arrived, in milliseconds since 1970.
            started_ms: when they were executed.
        """
        waits = np.maximum(started_ms - arrival_ms, 0.0)
        known = ~np.isnan(waits)
        self._waited_ms += float(waits[known].sum())
        self._waits += int(known.sum())

    def _count(self, records: int, busy_ms: float) -> None:
        self._records += records
        self._busy_ms += busy_ms

    def _learn(self, keys: Int64, costs_ms: Float64) -> None:
        if self._tracker is not None:
            self._messages += self._tracker.execute(keys, costs_ms, float(costs_ms.sum()))
