"""The base of policies that learn one table of costs from all instances."""

import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.costs import SpaceSaving
from penstock.policies.costs.pooled import PooledCosts
from penstock.policies.feedback import Feedback
from penstock.policies.kernels import Float64
from penstock.policies.learner import Learner
from penstock.policies.trackers import WhenAsked


class CostLearner(Learner):
    """A policy whose instances measure costs of records, and that pools their measurements.

    A subclass has the parameters `capacity` and `seed`, and creates `_costs`.
    """

    capacity: int
    seed: int
    _costs: PooledCosts

    def tracker(self, instance: int) -> WhenAsked:
        """Return a tracker that measures the records of an instance and answers requests."""
        return WhenAsked(instance, self.measurements())

    def measurements(self) -> SpaceSaving:
        """Return an empty table."""
        return SpaceSaving(self.capacity, self.seed)

    def expected_ms(self, keys: npt.ArrayLike) -> Float64:
        """Return the expected cost of a record of each key on an average instance."""
        return self._costs.estimate(keys)

    def expected_total_ms(self, feedback: Feedback) -> float:
        """Return the cost that was expected of the measured records on their instance."""
        if not isinstance(feedback.costs, SpaceSaving):
            return 0.0
        return self._costs.expected_total_ms(feedback.instance, feedback.costs)

    def _observe(self, feedback: Feedback) -> None:
        super()._observe(feedback)
        if feedback.costs is not None:
            if not isinstance(feedback.costs, SpaceSaving):
                raise PenstockError(f"costs must be SpaceSaving; got {feedback.costs!r}")
            self._costs.learn(feedback.instance, feedback.costs)

    def resize(self, instances: int) -> None:
        """Keep the learnt costs; new instances have average speed."""
        super().resize(instances)
        self._costs = self._costs.resized(self.instances, self.capacity)
