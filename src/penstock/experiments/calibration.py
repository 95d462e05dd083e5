"""The simulator of micro-batches beside runs on Spark: numbers for it, and its predictions.

An event log has the starts and ends of all tasks and batches. The overheads of the simulator come
from some batches of a run. It then predicts the durations of the batches after them.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from penstock.diagnosis.queries import Batch
from penstock.diagnosis.tasks import Tasks
from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Float64, Int64
from penstock.sim import HeavyTailed, Overheads, Stream, Worker, simulate_batches


class BatchWork(NamedTuple):
    """The work of a batch.

    Attributes:
        records: number of records of each task.
        busy_ms: time that the records of each task took.
        costs_ms: cost of all records, on a worker with slowdown 1.
    """

    records: Int64
    busy_ms: Float64
    costs_ms: float


@dataclass(frozen=True)
class Setting:
    """A run: a stream of uneven costs through one grouping.

    Attributes:
        name: name of the run.
        grouping: registered name of the grouping.
        options: further parameters of the grouping.
        batches: number of batches.
        records: number of records of a batch.
        routers: number of router tasks.
        spread: spread of costs within a key (see `sim.HeavyTailed`).
        seed: seed of the stream.
        workers: slots and slowdown of each executor.
    """

    name: str
    grouping: str = "factoring"
    options: dict[str, Any] = field(default_factory=dict)
    batches: int = 14
    records: int = 1_000
    routers: int = 1
    spread: float = 0.5
    seed: int = 0
    workers: tuple[tuple[int, float], ...] = ((8, 1.0),)

    @property
    def slots(self) -> int:
        """Number of tasks that run at a time."""
        return sum(slots for slots, _ in self.workers)

    def make_grouping(self) -> Grouping:
        """Return the grouping, with nothing learnt."""
        return Grouping.named(self.grouping, instances=self.slots, **self.options)

    def stream(self) -> Stream:
        """Return all records, in the order in which routers see them.

        Router r reads every record r, r + n, r + 2n, ... of a batch, with n routers.
        """
        count = self.batches * self.records
        stream = HeavyTailed(spread=self.spread, records=count).stream(self.seed)
        within = np.concatenate(
            [np.arange(router, self.records, self.routers) for router in range(self.routers)]
        )
        starts = np.arange(self.batches) * self.records
        order = (starts[:, np.newaxis] + within).ravel()
        return Stream.of(stream.keys[order], stream.costs_ms[order])


@dataclass(frozen=True)
class Recording:
    """A run on Spark, as numbers for the simulator.

    Attributes:
        setting: setting of the run.
        overheads: overheads that were measured, by their names in `sim.Overheads`.
        record_ms: time for a record besides its cost.
        used: number of first batches that are not predicted: warm-up, and those that overheads
            come from.
        real_ms: measured duration of each batch.
    """

    setting: Setting
    overheads: dict[str, float]
    record_ms: float
    used: int
    real_ms: tuple[float, ...]

    def predicted_ms(self) -> Float64:
        """Simulate the run, and return the duration of each batch."""
        setting = self.setting
        stream = setting.stream()
        return simulate_batches(
            setting.make_grouping(),
            Stream.of(stream.keys, stream.costs_ms + self.record_ms),
            records=setting.records,
            workers=[Worker(slots, slowdown) for slots, slowdown in setting.workers],
            routers=setting.routers,
            overheads=Overheads(**self.overheads),
        ).duration_ms

    def errors(self, predicted_ms: Float64) -> Float64:
        """Return predicted over real durations, minus 1, of the batches after the used ones."""
        real_ms = np.array(self.real_ms[self.used :])
        errors: Float64 = predicted_ms[self.used : self.used + real_ms.size] / real_ms - 1
        return errors

    @classmethod
    def of_json(cls, given: dict[str, Any]) -> Self:
        """Return a recording from its stored form."""
        setting = dict(given["setting"])
        setting["workers"] = tuple((slots, slowdown) for slots, slowdown in setting["workers"])
        return cls(**{**given, "setting": Setting(**setting), "real_ms": tuple(given["real_ms"])})


def write_recordings(target: Path, recordings: Sequence[Recording], **about: Any) -> None:  # noqa: ANN401
    """Write recordings as JSON, with some words about their origin."""
    runs = [asdict(recording) for recording in recordings]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({**about, "runs": runs}, indent=1) + "\n")


def read_recordings(source: Path) -> list[Recording]:
    """Read stored recordings."""
    return [Recording.of_json(run) for run in json.loads(source.read_text())["runs"]]


class Found(NamedTuple):
    """Numbers for the simulator, from some batches.

    Attributes:
        overheads: overheads of batches, stages and tasks.
        record_ms: time for a record besides its cost.
    """

    overheads: Overheads
    record_ms: float


def calibrated(batches: Sequence[Batch], works: Sequence[BatchWork], slowdown: Float64) -> Found:
    """Return the overheads of some batches of one operator.

    The time of a task besides its records is a + b n, for n records: a and b are fitted. A slot
    also waits from the end of a task for the start of the next one; this wait counts as a part of
    a. A record that takes longer than its cost, because no sleep is exact, makes b larger.

    Args:
        batches: batches with two stages, from an event log.
        works: work of the tasks of the second stage of each batch.
        slowdown: slowdown of each executor, by its number in the log.

    Raises:
        PenstockError: if a batch has not two stages one after the other.
    """
    if not batches or any(len(batch.groups) != 2 for batch in batches):
        shown = sorted({len(batch.groups) for batch in batches})
        raise PenstockError(f"batches must have two stages, for routers and work; got {shown}")
    parts = [_parts(batch, work, slowdown) for batch, work in zip(batches, works, strict=True)]
    records = np.concatenate([part.records for part in parts])
    extra_ms = np.concatenate([part.extra_ms for part in parts])
    full = records > 0
    own_ms, record_ms = _line(records[full], extra_ms[full])
    gap_ms = float(np.mean([part.gap_ms for part in parts]))
    empty_ms = float(np.median(extra_ms[~full])) if (~full).any() else own_ms
    typical = {
        name: float(np.median([getattr(part, name) for part in parts]))
        for name in ("batch_ms", "stage_ms", "router_ms", "launch_ms")
    }
    late_ms = sum(part.late_ms for part in parts) / records.sum()
    overheads = Overheads(task_ms=own_ms + gap_ms, empty_ms=empty_ms + gap_ms, **typical)
    return Found(overheads, record_ms + max(float(late_ms), 0.0))


class _Parts(NamedTuple):
    """The time of one batch, in parts; the last two have one entry for each task."""

    batch_ms: float
    stage_ms: float
    router_ms: float
    launch_ms: float
    gap_ms: float
    late_ms: float
    records: Int64
    extra_ms: Float64


def _parts(batch: Batch, work: BatchWork, slowdown: Float64) -> _Parts:
    routing, working = batch.groups
    tasks = Tasks.together([run.tasks for run in working.runs])
    tasks = tasks.chosen(np.argsort(tasks.launch_ms, kind="stable"))
    partition = tasks.partition.astype(np.int64)
    busy_ms = work.busy_ms[partition]
    nominal_ms = busy_ms / slowdown[tasks.executor.astype(np.int64)]
    stage_ms = max(working.start_ms - routing.end_ms, 0.0)
    rest_ms = batch.duration_ms - routing.wall_ms - working.wall_ms - 2 * stage_ms
    return _Parts(
        batch_ms=max(rest_ms, 0.0),
        stage_ms=stage_ms,
        router_ms=routing.wall_ms,
        launch_ms=_between_starts(tasks.launch_ms, working.slots),
        gap_ms=_between_tasks(tasks, working.slots),
        late_ms=float(nominal_ms.sum()) - work.costs_ms,
        records=work.records[partition],
        extra_ms=tasks.duration_ms - busy_ms,
    )


def _between_starts(launch_ms: Float64, slots: int) -> float:
    """Return the mean time between two starts, while all slots are idle."""
    first = launch_ms[:slots]
    return float(first[-1] - first[0]) / max(1, first.size - 1)


def _between_tasks(tasks: Tasks, slots: int) -> float:
    """Return the mean time from the end of a task to the start of the next one on its slot.

    The first slot that is free takes the next task: ends and later starts are paired in order.
    """
    later_ms = tasks.launch_ms[slots:]
    if not later_ms.size:
        return 0.0
    ends_ms = np.sort(tasks.finish_ms)[: later_ms.size]
    return float(np.maximum(later_ms - ends_ms, 0.0).mean())


def _line(records: Int64, extra_ms: Float64) -> tuple[float, float]:
    """Fit extra = a + b records by least squares, with a and b >= 0."""
    table = np.column_stack([np.ones(records.size), records])
    (at_zero, slope), *_ = np.linalg.lstsq(table, extra_ms, rcond=None)
    if at_zero < 0:
        return 0.0, max(float(extra_ms.sum() / records.sum()), 0.0)
    if slope < 0:
        return max(float(extra_ms.mean()), 0.0), 0.0
    return float(at_zero), float(slope)
