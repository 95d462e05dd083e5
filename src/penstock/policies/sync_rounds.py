"""The scheduler's state machine of POSG (Figure 3)."""

from enum import StrEnum

import numpy as np

from penstock.errors import PenstockError
from penstock.policies.codec import Arrays
from penstock.policies.kernels import Float64
from penstock.policies.validation import whole


class SyncState(StrEnum):
    """States of Figure 3."""

    ROUND_ROBIN = "ROUND ROBIN"
    SEND_ALL = "SEND ALL"
    WAIT_ALL = "WAIT ALL"
    RUN = "RUN"


_ORDER = tuple(SyncState)
_STATE, _EPOCH, _ASKED = range(3)


class SyncRounds:
    """Knows whom to ask, whose answers are missing, and when to trust the estimates.

    ROUND ROBIN until every instance has sent its matrices (3.A, 3.B). SEND ALL: the next k
    records carry a request each (3.C). WAIT ALL until all answers of this epoch are there (3.D):
    they are applied together, and it is RUN (3.E). New matrices in any state but the first begin
    the next epoch in SEND ALL (3.F); answers of older epochs are dropped.

    Example:
        >>> scheduler = SyncRounds(instances=2)
        >>> scheduler.matrices_received(0); scheduler.state.value
        'ROUND ROBIN'
        >>> scheduler.matrices_received(1); scheduler.state.value
        'SEND ALL'
        >>> scheduler.ask(), scheduler.ask(), scheduler.state.value
        (0, 1, 'WAIT ALL')
        >>> scheduler.answer_received(0, epoch=1, delta_ms=5.0) is None
        True
        >>> scheduler.answer_received(1, epoch=1, delta_ms=-2.0), scheduler.state.value
        (array([ 5., -2.]), 'RUN')
    """

    def __init__(self, instances: int) -> None:
        self.instances = whole("instances", instances, least=1)
        self._known = np.zeros(self.instances, dtype=np.bool_)
        self._deltas_ms = np.full(self.instances, np.nan)
        self._numbers = np.zeros(3, dtype=np.int64)

    @property
    def state(self) -> SyncState:
        """The state it is in."""
        return _ORDER[int(self._numbers[_STATE])]

    @property
    def epoch(self) -> int:
        """The current round of synchronisation, from 1 on; 0 before the first one."""
        return int(self._numbers[_EPOCH])

    def matrices_received(self, instance: int) -> None:
        """Transitions A, B and F."""
        self._known[instance] = True
        if self._known.all():
            self._numbers[_EPOCH] += 1
            self._numbers[_ASKED] = 0
            self._deltas_ms[:] = np.nan
            self._go(SyncState.SEND_ALL)

    def ask(self) -> int:
        """Return the instance whose request goes out now; transition C after the last one."""
        if self.state is not SyncState.SEND_ALL:
            raise PenstockError(f"requests are sent in SEND ALL only; the state is {self.state}")
        instance = int(self._numbers[_ASKED])
        self._numbers[_ASKED] += 1
        if instance == self.instances - 1:
            self._go(SyncState.WAIT_ALL)
        return instance

    def answer_received(self, instance: int, epoch: int, delta_ms: float) -> Float64 | None:
        """Transitions D and E: return the differences of all instances once they are complete."""
        if epoch != self.epoch:
            return None
        self._deltas_ms[instance] = delta_ms
        if self.state is not SyncState.WAIT_ALL or np.isnan(self._deltas_ms).any():
            return None
        self._go(SyncState.RUN)
        return self._deltas_ms.copy()

    def _go(self, state: SyncState) -> None:
        self._numbers[_STATE] = _ORDER.index(state)

    def arrays(self) -> Arrays:
        """Everything it remembers, for snapshots; the arrays are the ones in use."""
        return {"known": self._known, "deltas_ms": self._deltas_ms, "numbers": self._numbers}
