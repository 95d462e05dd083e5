"""The state machine of POSG's scheduler (Figure 3): rounds of synchronisation."""

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
    """Tracks the instances to ask, the missing answers, and whether estimates can be used.

    The state is ROUND ROBIN until every instance has sent its matrices (3.A, 3.B). In SEND ALL each
    of the next k records carries a request (3.C). In WAIT ALL answers of this epoch are missing
    (3.D). Once all are there they are applied together, and the state is RUN (3.E). New matrices in
    any state but the first start the next epoch in SEND ALL (3.F). Answers of older epochs are
    dropped.

    Example:
        >>> rounds = SyncRounds(instances=2)
        >>> rounds.matrices_received(0); rounds.state.value
        'ROUND ROBIN'
        >>> rounds.matrices_received(1); rounds.state.value
        'SEND ALL'
        >>> rounds.ask(), rounds.ask(), rounds.state.value
        (0, 1, 'WAIT ALL')
        >>> rounds.answer_received(0, epoch=1, delta_ms=5.0) is None
        True
        >>> rounds.answer_received(1, epoch=1, delta_ms=-2.0), rounds.state.value
        (array([ 5., -2.]), 'RUN')
    """

    def __init__(self, instances: int) -> None:
        self.instances = whole("instances", instances, least=1)
        self._known = np.zeros(self.instances, dtype=np.bool_)
        self._deltas_ms = np.full(self.instances, np.nan)
        self._numbers = np.zeros(3, dtype=np.int64)

    @property
    def state(self) -> SyncState:
        """Present state of Figure 3."""
        return _ORDER[int(self._numbers[_STATE])]

    @property
    def running(self) -> bool:
        """Whether records are routed by estimates: in WAIT ALL and RUN."""
        return self.state in {SyncState.WAIT_ALL, SyncState.RUN}

    @property
    def epoch(self) -> int:
        """Number of the present round of synchronisation, from 1 on; 0 before the first one."""
        return int(self._numbers[_EPOCH])

    def matrices_received(self, instance: int) -> None:
        """Receive the matrices of an instance (transitions A, B and F)."""
        self._known[instance] = True
        if self._known.all():
            self._numbers[_EPOCH] += 1
            self._numbers[_ASKED] = 0
            self._deltas_ms[:] = np.nan
            self._go(SyncState.SEND_ALL)

    def ask(self) -> int:
        """Return the instance that gets the next request; transition C follows the last one."""
        if self.state is not SyncState.SEND_ALL:
            raise PenstockError(f"requests are sent in SEND ALL only; the state is {self.state}")
        instance = int(self._numbers[_ASKED])
        self._numbers[_ASKED] += 1
        if instance == self.instances - 1:
            self._go(SyncState.WAIT_ALL)
        return instance

    def answer_received(self, instance: int, epoch: int, delta_ms: float) -> Float64 | None:
        """Receive an answer; return the differences of all instances once they are complete.

        These are the transitions D and E.
        """
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
        """Return everything it remembers, for snapshots; the arrays are the ones in use."""
        return {"known": self._known, "deltas_ms": self._deltas_ms, "numbers": self._numbers}
