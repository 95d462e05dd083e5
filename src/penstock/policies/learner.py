"""What policies have in common that hear from instances."""

import numpy as np

from penstock.policies.base import Policy
from penstock.policies.costs import CostModel
from penstock.policies.feedback import Feedback, Tracker
from penstock.policies.kernels import Int64
from penstock.policies.validation import whole


class Learner(Policy):
    """A policy of an operator's instances that may measure them and learn.

    If it wants to hear from the instances, it hands out a `tracker` for each of them, and gets
    their messages in `observe`.

    Args:
        instances: how many there are, >= 1.
    """

    def __init__(self, instances: int = 1) -> None:
        self.instances = whole("instances", instances, least=1)

    def resize(self, instances: int) -> None:
        """Go on with another number of instances."""
        self.instances = whole("instances", instances, least=1)

    def warm_up(self) -> None:
        """Compile all kernels that this policy needs, with a copy: once, and before it matters."""
        trial, keys = self.clone(), np.zeros(2, dtype=np.int64)
        tracker = trial.tracker(0)
        messages = tracker.execute(keys, np.ones(2), 1.0) if tracker else []
        for feedback in [*messages, *(tracker.finish() if tracker else [])] * 2:
            trial.expected_total_ms(feedback)
            trial.observe(feedback)
        trial.restore(trial.snapshot())
        trial._try(keys)

    def _try(self, keys: Int64) -> None:
        """Decide about some records as an engine does, to compile what that needs."""

    def tracker(self, instance: int) -> Tracker | None:
        """Return the part that lives at an instance; None if nothing needs to be measured."""
        return None

    def measurements(self) -> CostModel | None:
        """Return an empty model of the kind that trackers send; None if they send none."""
        return None

    def observe(self, feedback: Feedback) -> None:
        """Take a message of an instance; one of an instance that has been removed is dropped."""
        if feedback.instance < self.instances:
            self._observe(feedback)

    def _observe(self, feedback: Feedback) -> None:
        """Learn from a message of an instance; nothing by default."""

    def expected_total_ms(self, feedback: Feedback) -> float:
        """Return what the records of a message were expected to cost; 0 if nobody expects."""
        return 0.0

    def _silent(self) -> bool:
        """Whether no instance has a tracker, and so none will ever answer."""
        return type(self).tracker is Learner.tracker

    @property
    def learns(self) -> bool:
        """Whether what it has heard from instances changes its decisions."""
        return self.measurements() is not None

    @property
    def running(self) -> bool:
        """Whether the policy decides with what it has learnt."""
        return True

    @property
    def state(self) -> str:
        """The state the policy is in, for plots and journals."""
        return "RUN"

    @property
    def knows_truth(self) -> bool:
        """Whether an engine should tell true slowdowns: for yardsticks only."""
        return False
