"""Inputs of the engine: random streams, and a grouping that notes its signals."""

import numpy as np
from hypothesis import strategies as st

from penstock.policies.grouping import Grouping
from penstock.sim import Stream

RECORD = st.tuples(st.integers(0, 12), st.integers(0, 3))
STREAMS = st.lists(RECORD, min_size=1, max_size=150).map(
    lambda records: Stream.of(
        [k for k, _ in records], [1.0 + 7 * k % 32 for k, _ in records]
    ).arriving(np.cumsum([4.0 * gap for _, gap in records]))
)


class Listener(Grouping):
    """Routes by key; notes each signal: (source, records routed so far, instance, utilization)."""

    def __init__(self, instances, diary):
        super().__init__(instances)
        self.diary = diary
        self.source = self.routed = 0

    def begin(self, router):
        self.source = router

    def route(self, keys, now_ms=None):
        self.routed += len(keys)
        return np.asarray(keys % self.instances, dtype=np.int32)

    def observe(self, feedback):
        self.diary.append((self.source, self.routed, feedback.instance, feedback.utilization))
