"""The policies of one operator: a grouping, and perhaps a shedder."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from penstock.errors import PenstockError
from penstock.policies import codec
from penstock.policies.costs import SpaceSaving
from penstock.policies.feedback import Feedback
from penstock.policies.grouping import Grouping
from penstock.policies.learner import Learner
from penstock.policies.shedding import Shedder, Target

_LABEL = "penstock-policies"


@dataclass
class OperatorPolicies:
    """A grouping, and perhaps a shedder in front of it; both learn from the same measurements.

    Attributes:
        grouping: policy that decides which instance gets which record.
        shedder: policy that decides which record is dropped; None drops nothing.

    Example:
        >>> from penstock.policies.grouping import RoundRobin
        >>> from penstock.policies.shedding import LoadAware, average
        >>> policies = OperatorPolicies(RoundRobin(2), LoadAware(average("2 s"), instances=2))
        >>> policies.measuring.name
        'las'
    """

    grouping: Grouping
    shedder: Shedder | None = None

    def __post_init__(self) -> None:
        if self.shedder is None:
            return
        if self.shedder.instances != self.grouping.instances:
            raise PenstockError(
                f"shed: instances must be that of the grouping ({self.grouping.instances}); "
                f"got {self.shedder.instances}"
            )
        mine, theirs = self.grouping.measurements(), self.shedder.measurements()
        if mine is None or theirs is None:
            return
        # Tables of any size can be merged; matrices must have the same size.
        alike = isinstance(mine, SpaceSaving) and isinstance(theirs, SpaceSaving)
        if not alike and mine != theirs:
            raise PenstockError(
                f"shed: {type(self.shedder).__name__} learns from {theirs!r}, which the grouping "
                f"{type(self.grouping).__name__} does not measure; use another shedder"
            )

    @property
    def all(self) -> tuple[Learner, ...]:
        """The grouping, and the shedder if there is one."""
        return (self.grouping,) if self.shedder is None else (self.grouping, self.shedder)

    @property
    def target(self) -> Target | None:
        """Target of the shedder; None without one."""
        return self.shedder.target if self.shedder is not None else None

    @property
    def measuring(self) -> Learner:
        """The policy whose trackers measure for all policies."""
        return next((one for one in self.all if one.measurements() is not None), self.grouping)

    @property
    def words(self) -> str:
        """States of the policies and, for whole batches, the source of costs; for the journal."""
        states = ", ".join(one.state for one in self.all)
        source = self.measuring.cost_source
        return f"{states}, costs from {source}" if source else states

    @property
    def learns(self) -> bool:
        """Whether decisions depend on the reports of instances."""
        return any(one.learns for one in self.all)

    @property
    def order_matters(self) -> bool:
        """Whether decisions depend on the order of records."""
        return any(one.order_matters for one in self.all)

    def clone(self, instances: int | None = None) -> Self:
        """Return fresh policies that have learnt nothing."""
        changes = {} if instances is None else {"instances": instances}
        shedder = None if self.shedder is None else self.shedder.clone(**changes)
        return type(self)(self.grouping.clone(**changes), shedder)

    def sized(self, instances: int) -> "OperatorPolicies":
        """Return these policies if they fit a number of instances; otherwise fresh ones."""
        return self if instances == self.grouping.instances else self.clone(instances)

    def warm_up(self) -> None:
        """Compile all kernels that the policies need."""
        self.grouping.warm_up()
        if self.shedder is not None:
            self.shedder.warm_up()

    def observe(self, feedback: Feedback) -> None:
        """Teach all policies a message of an instance."""
        for one in self.all:
            if feedback.costs is None or one.measurements() is not None:
                one.observe(feedback)

    def resize(self, instances: int) -> None:
        """Continue with another number of instances."""
        self.grouping.resize(instances)
        if self.shedder is not None:
            self.shedder.resize(instances)

    def snapshot(self) -> bytes:
        """Return everything learnt, as bytes."""
        if self.shedder is None:
            return self.grouping.snapshot()
        both = {"grouping": self.grouping.snapshot(), "shedder": self.shedder.snapshot()}
        return codec.encode(_LABEL, {k: np.frombuffer(v, dtype=np.uint8) for k, v in both.items()})

    def restore(self, data: bytes) -> None:
        """Restore the bytes of `snapshot`."""
        if self.shedder is None:
            self.grouping.restore(data)
            return
        state = codec.decode(_LABEL, data)
        if not {"grouping", "shedder"} <= state.keys():
            raise PenstockError("snapshot does not fit: it is not of a grouping and a shedder")
        self.grouping.restore(state["grouping"].tobytes())
        self.shedder.restore(state["shedder"].tobytes())
