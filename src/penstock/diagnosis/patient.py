"""A query as cures see it, and the gain of a cure."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from penstock.diagnosis.causes import Cause, Split, heaviest
from penstock.diagnosis.provisioning import Supply, Treated
from penstock.diagnosis.queries import Group, Query, Run
from penstock.diagnosis.rebalance import Interval
from penstock.policies.kernels import Float64

# Smaller gains are not worth a change.
_WORTHWHILE = 1.05


class Cure(NamedTuple):
    """A cure with its predicted gain.

    Attributes:
        cure: name of the verb or setting.
        gain: expected ratio of the time of batches before to after.
        low: gain that is reached at least.
        high: gain that is reached at most.
        what: what to do, in one sentence.
    """

    cure: str
    gain: float
    low: float
    high: float
    what: str


class Patient(NamedTuple):
    """A query with all that is known about it.

    Attributes:
        query: the query.
        treated: its examined batches.
        supply: slots that it has and needs.
        settings: settings of the application.
        version: version of Spark.
        slowdown: slowdown of each executor.
    """

    query: Query
    treated: list[Treated]
    supply: Supply
    settings: dict[str, str]
    version: str
    slowdown: Float64

    @property
    def duration_ms(self) -> float:
        """Time of all examined batches."""
        return sum(one.batch.duration_ms for one in self.treated)

    def total_ms(self, cause: Cause, having: Callable[[Run], bool] = lambda _: True) -> float:
        """Return the time of a cause in stages that a function accepts."""
        return sum(own.causes_ms.get(cause, 0.0) for _, own in self.stages(having))

    def stages(self, having: Callable[[Run], bool]) -> Iterator[tuple[Group, Split]]:
        """Return the groups of stages that a function accepts, of all batches."""
        for one in self.treated:
            for group, own in zip(one.batch.groups, one.splits, strict=True):
                if having(heaviest(group)):
                    yield group, own

    def cure(self, name: str, saved_ms: Interval, what: str) -> Cure:
        """Return the cure that saves some time of all batches."""
        whole_ms = self.duration_ms
        # Nothing makes the work itself disappear.
        gains = [whole_ms / max(whole_ms - max(ms, 0.0), 1e-3 * whole_ms) for ms in saved_ms]
        return Cure(name, gains[1], gains[0], gains[2], what)


def worth(cure: Cure) -> list[Cure]:
    """Return the cure, or nothing if its gain is not worth a change."""
    return [cure] if cure.gain > _WORTHWHILE else []
