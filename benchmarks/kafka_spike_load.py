"""The load of `kafka_spike.py`, and what became of its records."""

import json
import math
from dataclasses import dataclass

import numpy as np

from penstock.sim import HeavyTailed
from penstock.spark.lab.kafka_topics import Outgoing

# Rate of the spike, over that of calm times.
SPIKE = 4


@dataclass(frozen=True)
class Spike:
    """The load: calm, a spike, calm again.

    Attributes:
        rate: records in a second, but in the spike.
        calm_s: time before the spike, and after it.
        spike_s: length of the spike.
    """

    rate: float
    calm_s: float
    spike_s: float

    @property
    def length_s(self) -> float:
        return 2 * self.calm_s + self.spike_s

    def due(self, passed_s: float) -> int:
        """Return the number of records that have arrived after some time."""
        spiked_s = min(max(0.0, passed_s - self.calm_s), self.spike_s)
        return int(self.rate * (min(passed_s, self.length_s) + (SPIKE - 1) * spiked_s))

    def records(self) -> list[Outgoing]:
        """Return all records of the stream."""
        stream = HeavyTailed(records=self.due(self.length_s), distinct=200).stream(0)
        costs_ms = np.minimum(stream.costs_ms, 400.0)
        rows = enumerate(zip(stream.keys.tolist(), costs_ms.tolist(), strict=True))
        return [
            Outgoing(f"k{key}", json.dumps({"number": number, "cost_ms": cost_ms}))
            for number, (key, cost_ms) in rows
        ]


@dataclass(frozen=True)
class Outcome:
    """The result of a run; one entry of each array for each record.

    Attributes:
        sent_s: time at which it was sent, from the beginning.
        waited_s: time until its function started.
        ended_s: time at which it was in the second topic.
        replayed: whether it was shed, and answered later.
        wrong: number of records that were lost or doubled.
        most_executors: largest number of executors.
    """

    sent_s: np.ndarray
    waited_s: np.ndarray
    ended_s: np.ndarray
    replayed: np.ndarray
    wrong: int
    most_executors: int

    def mean_by_second(self, first_s: float, last_s: float) -> np.ndarray:
        """Return the mean waiting time of records that were not shed, of each second."""
        means = []
        for second in np.arange(first_s, last_s):
            own = (self.sent_s >= second) & (self.sent_s < second + 1) & ~self.replayed
            if own.any():
                means.append(float(self.waited_s[own].mean()))
        return np.array(means or [math.nan])
