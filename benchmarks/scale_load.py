"""The load of `scale.py` over time, and the feed that writes its records."""

import threading
import time
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LOW_PER_S = 12.0
TICK_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Load:
    """The load of a run over time.

    Attributes:
        phases: length of each phase in seconds, and the load at its end as a multiple.
        kill_s: second at which the driver is killed, in the run that does so.
        alone_s: length of the run with one executor.
        period_s: time between two plans.
    """

    phases: tuple[tuple[float, float], ...]
    kill_s: float
    alone_s: float
    period_s: float

    @property
    def length_s(self) -> float:
        return float(sum(seconds for seconds, _ in self.phases))

    @property
    def fallen_s(self) -> float:
        """Second at which the load is back at the lowest one."""
        return self.length_s - self.phases[-1][0]

    def at(self, second: float) -> float:
        """Return the load at a second."""
        ends, loads = [0.0], [float(self.phases[0][1])]
        for seconds, load in self.phases:
            ends.append(ends[-1] + seconds)
            loads.append(float(load))
        return float(np.interp(second, ends, loads))


FULL = Load(
    phases=((30, 1), (120, 4), (30, 4), (30, 1), (120, 1)), kill_s=165, alone_s=180, period_s=3.0
)
QUICK = Load(phases=((5, 1), (5, 2), (5, 1)), kill_s=8, alone_s=8, period_s=2.0)


@dataclass
class Feed:
    """Writes files of records at the rate of the load; at the lowest load until `go` is set."""

    folder: Path
    load: Load
    length_s: float
    _: KW_ONLY
    go: threading.Event = field(default_factory=threading.Event)
    at_s: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    began_s: float = 0.0

    def run(self) -> None:
        began_s, owed = time.time(), 0.0
        while not self.began_s or time.time() < self.began_s + self.length_s:
            if self.go.is_set() and not self.began_s:
                self.began_s = time.time()
            load = self.load.at(time.time() - self.began_s if self.began_s else 0)
            owed += load * LOW_PER_S * TICK_S
            self._write(self.sent[-1] if self.sent else 0, int(owed))
            time.sleep(max(0.0, began_s + len(self.sent) * TICK_S - time.time()))

    def _write(self, first: int, stop: int) -> None:
        ids = np.arange(first, stop)
        target = self.folder / f"{len(self.sent):06}.parquet"
        pq.write_table(pa.table({"id": ids, "entity": ids % 50}), target.with_suffix(".tmp"))
        target.with_suffix(".tmp").rename(target)
        self.at_s.append(time.time())
        self.sent.append(stop)
