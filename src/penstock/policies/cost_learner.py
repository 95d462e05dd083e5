"""The base of policies that learn one table of costs from all instances."""

from typing import ClassVar

import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.costs import ByCall, BySize, HotKey, SpaceSaving
from penstock.policies.costs.pooled import PooledCosts
from penstock.policies.costs.pooled_by_call import PooledByCall
from penstock.policies.costs.pooled_by_size import PooledBySize
from penstock.policies.feedback import Feedback
from penstock.policies.kernels import Float64
from penstock.policies.learner import Learner
from penstock.policies.trackers import WhenAsked


class CostLearner(Learner):
    """A policy whose instances measure costs of records, and that pools their measurements.

    A subclass has the parameters `capacity`, `half_life`, `drift`, `seed`, `sized` and `together`,
    and calls `_pooled`.
    """

    capacity: int
    half_life: float
    drift: float
    seed: int
    sized: bool
    # Whether to keep how much the costs of a key differ.
    _spread: ClassVar[bool] = False
    _costs: PooledCosts

    def _pooled(self) -> PooledCosts:
        """Return an empty cost model for all instances."""
        kind: type[PooledCosts] = PooledByCall if self.together else PooledCosts
        if self.sized:
            kind = PooledBySize
        return kind(
            self.instances, self.capacity, self.half_life, self.drift, self.seed, self._spread
        )

    def tracker(self, instance: int) -> WhenAsked:
        """Return a tracker that measures the records of an instance and answers requests."""
        return WhenAsked(instance, self.measurements())

    def measurements(self) -> SpaceSaving:
        """Return an empty table."""
        kind: type[SpaceSaving] = ByCall if self.together else SpaceSaving
        if self.sized:
            kind = BySize
        return kind(self.capacity, self.seed, self._spread)

    def expected_ms(self, keys: npt.ArrayLike, sizes: npt.ArrayLike | None = None) -> Float64:
        """Return the expected cost of each record on an average instance.

        Args:
            keys: keys of the records.
            sizes: sizes of the records, if the policy is `sized`.
        """
        return self._costs.estimate(keys, sizes)

    def expected_total_ms(self, feedback: Feedback) -> float:
        """Return the cost that was expected of the measured records on their instance."""
        if not isinstance(feedback.costs, SpaceSaving):
            return 0.0
        return self._costs.expected_total_ms(self._worker(feedback), feedback.costs)

    @property
    def cost_source(self) -> str:
        """Where estimates of records that are measured together come from."""
        return self._costs.source if isinstance(self._costs, PooledByCall) else ""

    def hot_keys(self, most: int) -> list[HotKey]:
        """Return the keys that take the most time, the hottest first."""
        return self._costs.hot_keys(most)

    def _worker(self, feedback: Feedback) -> int:
        """Return the number of the worker that has sent a message."""
        return feedback.instance

    def _observe(self, feedback: Feedback) -> None:
        super()._observe(feedback)
        if feedback.costs is not None:
            if not isinstance(feedback.costs, SpaceSaving):
                raise PenstockError(f"costs must be SpaceSaving; got {feedback.costs!r}")
            self._costs.learn(self._worker(feedback), feedback.costs)

    def resize(self, instances: int) -> None:
        """Keep the learnt costs; new instances have average speed."""
        super().resize(instances)
        self._costs = self._costs.resized(self.instances, self.capacity)
