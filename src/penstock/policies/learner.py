"""The base of policies that may learn from messages of instances."""

import numpy as np

from penstock.policies.base import Policy
from penstock.policies.costs import CostModel, HotKey
from penstock.policies.feedback import Feedback, Tracker, measure, refuse_wrong
from penstock.policies.kernels import Int64
from penstock.policies.validation import whole

# Largest number of instances: far more than any stage of Spark has tasks.
MAX_INSTANCES = 1_000_000


class Learner(Policy):
    """A policy of an operator that may measure the operator's instances and learn.

    To learn, it returns a `tracker` for each instance, and receives their messages in `observe`.

    Args:
        instances: number of instances, >= 1 and at most a million.
    """

    # Whether its costs follow the size of records: engines then pass sizes, too.
    sized: bool = False
    # Whether the cost of records is measured for whole calls of a function (see `costs.ByCall`).
    together: bool = False

    def __init__(self, instances: int = 1) -> None:
        self.instances = whole("instances", instances, least=1, most=MAX_INSTANCES)

    def resize(self, instances: int) -> None:
        """Go on with another number of instances.

        Called by the controller on the driver, when the number of active instances changes.
        """
        self.instances = whole("instances", instances, least=1, most=MAX_INSTANCES)

    def warm_up(self) -> None:
        """Compile all kernels of this policy, with a copy of it.

        Called on the driver, before an operator is applied to a frame.
        """
        trial, keys = self.clone(), np.zeros(2, dtype=np.int64)
        tracker = trial.tracker(0)
        sizes = np.arange(2.0) if self.sized else None
        messages = measure(tracker, keys, np.ones(2), sizes=sizes) if tracker else []
        for feedback in [*messages, *(tracker.finish() if tracker else [])] * 2:
            trial.expected_total_ms(feedback)
            trial.observe(feedback)
        trial.restore(trial.snapshot())
        trial._try(keys)

    def _try(self, keys: Int64) -> None:
        """Decide about some records in the way of an engine, to compile the kernels for it.

        Called by `warm_up` only.
        """

    def tracker(self, instance: int) -> Tracker | None:
        """Return the part that lives at an instance; None if nothing needs to be measured.

        Called by the meter on the executor, at the start of each task; by the simulator, once for
        each instance.
        """
        return None

    def measurements(self) -> CostModel | None:
        """Return an empty model of the kind that trackers send; None if they send none.

        Called by the controller on the driver, to read the costs in a report.
        """
        return None

    def observe(self, feedback: Feedback) -> None:
        """Receive a message of an instance; messages of removed instances are dropped.

        Called by the controller on the driver, for each report of an instance and after each batch;
        by the simulator, when a message arrives.
        """
        refuse_wrong(feedback)
        if feedback.instance < self.instances:
            self._observe(feedback)

    def _observe(self, feedback: Feedback) -> None:
        """Learn from a message of an instance; nothing by default. Called by `observe` only."""

    def expected_total_ms(self, feedback: Feedback) -> float:
        """Return the cost that was expected of the records of a message; 0 without expectations.

        Called by the controller on the driver, just before it passes the message to `observe`.
        """
        return 0.0

    def hot_keys(self, most: int) -> list[HotKey]:
        """Return the keys that take the most time, the hottest first; empty if none is learnt.

        Called by the controller on the driver, for people who watch the operator.

        Args:
            most: largest number of keys.
        """
        return []

    def _silent(self) -> bool:
        """Return whether no instance has a tracker, so that none will ever answer."""
        return type(self).tracker is Learner.tracker

    @property
    def learns(self) -> bool:
        """Whether messages of instances change its decisions.

        Read by the router on the executor: without it the router requests no snapshot. Read by the
        controller on the driver, too.
        """
        return self.measurements() is not None

    @property
    def order_matters(self) -> bool:
        """Whether decisions about records depend on the records before them.

        Read on the driver, when an operator is applied to a frame.
        """
        return True

    @property
    def running(self) -> bool:
        """Whether it decides with what it has learnt. It is for code; `state` is for people."""
        return True

    @property
    def state(self) -> str:
        """Name of the state that the policy is in, for people.

        Read by the controller on the driver, for stats and journal; by the simulator, for plots.
        """
        return "RUN"

    @property
    def cost_source(self) -> str:
        """Where estimates come from, if records are measured together; empty otherwise.

        Read by the controller on the driver, for stats and journal.
        """
        return ""

    @property
    def knows_truth(self) -> bool:
        """Whether the engine should send true slowdowns: for ideal policies of comparisons.

        Read by the simulator only.
        """
        return False
