"""The ideal with which estimating shedders are compared."""

import numpy as np
import numpy.typing as npt

from penstock.policies.codec import Arrays
from penstock.policies.costs import CostModel, Exact
from penstock.policies.feedback import Feedback
from penstock.policies.kernels import Float64
from penstock.policies.shedding.admission import Admission
from penstock.policies.shedding.load_aware import Keep, checked_keep
from penstock.policies.shedding.target_shedder import TargetShedder, checked_target
from penstock.policies.shedding.targets import Target
from penstock.policies.validation import refuse_other


class FullKnowledge(TargetShedder):
    """Sheds as LAS does, with the exact cost of every record.

    Its clock is exact for one instance. Several instances are assumed to be balanced perfectly, and
    nothing corrects the clock where they are not.

    Args:
        target: limit of the waiting time.
        costs: exact cost of every key.
        keep: "any" sheds whatever arrives when the target is at stake, as the paper does;
            "cheap" sheds expensive records first, and so keeps more of them.
        instances: number of instances that share the admitted records, >= 1.

    Example:
        >>> from penstock.policies.shedding import each_record
        >>> costs = Exact(keys=[1, 2], costs_ms=[10.0, 1.0])
        >>> shedder = FullKnowledge(target=each_record("5 ms"), costs=costs)
        >>> shedder.admit([2, 1, 2, 2], [0.0, 0.0, 1.0, 8.0])
        array([ True,  True, False,  True])

    References:
        LAS (Rivetti et al., 2020), sections 4.1 and 5.1.
    """

    name = "full_knowledge"

    def __init__(
        self, target: Target, costs: Exact, keep: Keep = "any", instances: int = 1
    ) -> None:
        self.keep = checked_keep(keep)
        admission = Admission(checked_target(target), cheap=self.keep == "cheap")
        super().__init__(target, instances, admission)
        refuse_other("costs", costs, CostModel, ", such as Exact")
        self.costs = costs
        self._slowdown = np.ones(self.instances)

    def expected_ms(self, keys: npt.ArrayLike) -> Float64:
        """Return the true cost of a record of each key."""
        return self.costs.estimate(keys) * float(self._slowdown.mean())

    def _observe(self, feedback: Feedback) -> None:
        super()._observe(feedback)
        if feedback.slowdown is not None:
            self._slowdown[feedback.instance] = feedback.slowdown

    def resize(self, instances: int) -> None:
        """Expect all instances to have nominal speed again."""
        super().resize(instances)
        self._slowdown = np.ones(self.instances)

    def _state(self) -> Arrays:
        return {**super()._state(), "slowdown": self._slowdown}

    @property
    def knows_truth(self) -> bool:
        """Always: it needs the true slowdowns of instances."""
        return True
