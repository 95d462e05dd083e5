"""What-if questions: settings in a scenario, run in the simulator of micro-batches."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping
from penstock.policies.shedding import Shedder, average
from penstock.rehearsal.recorded import Recorded, grouping_named
from penstock.rehearsal.scenarios import Scenario, Setting, stream_of
from penstock.sim.batch_parts import Worker
from penstock.sim.triggers import TriggeredResult, simulate_triggers
from penstock.sim.workloads import Stream

# Part of the time in which policies learn; its records do not count.
_LEARN = 0.25
# A setting cannot keep up if waiting times grow by more than this factor towards the end.
_GROWTH = 1.5
# Simulations in which the target of a shedder is searched, and the part of the latency to aim at.
_TRIES = 5
_AIM = 0.97
# Batches that follow one another keep up if they take at most this multiple of the recorded time.
_SLOWER = 1.05
_ROUND_ROBIN = "round_robin"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a setting in the simulator.

    Attributes:
        executors: number of executors.
        instances: number of instances.
        slots: number of slots, which are its cost.
        grouping: name of the grouping.
        shedder: name of the shedder; empty for none.
        shed_target_s: limit of the average waiting time that the shedder has; None without one.
        batch_s: mean duration of a batch.
        waiting_s: mean time from arrival to execution.
        latency_s: mean time from arrival to the end of the batch.
        latency_p95_s: 95th percentile of it.
        shed: share of shed records.
        busy: work over the time of all slots.
        keeps_up: whether waiting times do not grow without end.
        holds: whether it keeps up, and mean latency is within the target; None without a target.
    """

    executors: int
    instances: int
    slots: int
    grouping: str
    shedder: str
    shed_target_s: float | None
    batch_s: float
    waiting_s: float
    latency_s: float
    latency_p95_s: float
    shed: float
    busy: float
    keeps_up: bool
    holds: bool | None

    def document(self) -> dict[str, Any]:
        """Return the outcome for a JSON file."""
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


def rehearse(
    recorded: Recorded,
    settings: Sequence[Setting],
    scenario: Scenario,
    *,
    progress: Callable[[], None] = lambda: None,
) -> list[Outcome]:
    """Return the outcomes of settings in a scenario, in their order.

    Args:
        recorded: recorded stream, with the setting in which it was recorded.
        settings: settings to try.
        scenario: what happens to stream and cluster.
        progress: function that is called after each setting.
    """
    stream = stream_of(recorded, scenario)
    found = []
    for setting in settings:
        found.append(_outcome(recorded, stream, setting, scenario=scenario))
        progress()
    return found


def settings_of(
    recorded: Recorded,
    *,
    executors: Sequence[int] = (),
    instances: Sequence[int] = (),
    groupings: Sequence[str] = (),
    shedder: str = "",
) -> list[Setting]:
    """Return all combinations of the user's choices, or some around the recorded setting.

    Args:
        recorded: recorded stream.
        executors: numbers of executors; half, the same and twice as many by default.
        instances: numbers of instances; one per slot by default.
        groupings: names of groupings; the recorded one, factoring and round robin by default.
        shedder: name of a shedder to try as well; empty for none.
    """
    count = len(recorded.workers)
    chosen = executors or sorted({max(1, count // 2), count, 2 * count})
    usual = (recorded.grouping, "factoring", _ROUND_ROBIN)
    names = [*groupings] or [*dict.fromkeys(usual)]
    if not recorded.grouping:
        if groupings or shedder or instances:
            raise PenstockError(
                "--grouping, --instances and --shedder need a trace with costs of records, which "
                "an event log does not have; record one with penstock.balance(..., record='path')"
            )
        names = [""]
    for name in filter(None, names):
        grouping_named(name, 1, servers=recorded.servers, sized=False)  # refuses unfit ones now
    sheds = ("", shedder) if shedder else ("",)
    return [
        Setting(executors=e, instances=k, grouping=g, shedder=s)
        for e in chosen
        for g in names
        for k in (instances or (None,))
        for s in sheds
    ]


def workers_of(recorded: Recorded, executors: int, slow: float = 1.0) -> list[Worker]:
    """Return some executors: recorded ones, then usual ones; the first one may be slower.

    Args:
        recorded: recorded stream.
        executors: number of executors.
        slow: factor of the time that the first executor takes.
    """
    slots = int(np.median([one.slots for one in recorded.workers]))
    found = [*recorded.workers[:executors]]
    found += [Worker(slots)] * (executors - len(found))
    found[0] = replace(found[0], slowdown=found[0].slowdown * slow)
    return found


def _outcome(
    recorded: Recorded, stream: Stream, setting: Setting, *, scenario: Scenario
) -> Outcome:
    """Return the outcome of a setting; for a shedder, of a target with which latency holds.

    Shedders limit the waiting time, and a result is there at the end of its batch.
    """
    target_ms = scenario.target_ms
    if not setting.shedder or target_ms is None:
        return _simulated(recorded, stream, setting, scenario=scenario)
    found, limit_ms = [], target_ms
    for _ in range(_TRIES):
        one = _simulated(recorded, stream, setting, scenario=scenario, limit_ms=limit_ms)
        found.append(one)
        factor = _AIM * target_ms / max(1000 * one.latency_s, 1e-3)
        if not one.shed or not one.latency_s or abs(factor - 1) < 1 - _AIM:
            break
        limit_ms *= min(max(factor, 0.3), 1.5)
    return min(found, key=lambda one: (not one.holds, one.shed if one.holds else one.latency_s))


def _simulated(
    recorded: Recorded,
    stream: Stream,
    setting: Setting,
    *,
    scenario: Scenario,
    limit_ms: float | None = None,
) -> Outcome:
    workers = workers_of(recorded, setting.executors, scenario.slow_executor)
    slots = sum(one.slots for one in workers)
    grouping = _grouping(recorded, setting, slots)
    shedder = _shedder(setting, limit_ms, grouping.instances, sized=stream.sizes is not None)
    trigger_ms = recorded.trigger_ms if scenario.trigger_ms is None else scenario.trigger_ms
    limits = _limits(recorded, scenario)
    ran = simulate_triggers(
        grouping,
        stream,
        workers=workers,
        trigger_ms=trigger_ms,
        limits=limits,
        shedder=shedder,
        servers=recorded.servers,
        overheads=recorded.overheads,
    )
    learnt = ran.began_ms >= _LEARN * ran.began_ms[-1]
    late = np.repeat(learnt, ran.records)
    admitted = late & ~ran.shed
    whole_ms = float(ran.began_ms[-1] + ran.duration_ms[-1] - ran.began_ms[0])
    work_ms = float(stream.costs_ms[~ran.shed].sum()) / recorded.servers
    if limits is None:
        speed = sum(one.slots / one.slowdown for one in workers)
        arriving_ms = max(float(stream.arrivals_ms[-1] - stream.arrivals_ms[0]), 1e-9)
        keeps_up = work_ms < speed * arriving_ms and _keeps_up(stream, ran, trigger_ms=trigger_ms)
    else:
        keeps_up = float(ran.duration_ms[learnt].mean()) <= _SLOWER * recorded.batch_ms
    latencies_ms = ran.latency_ms[admitted]
    target_ms = scenario.target_ms
    return Outcome(
        executors=setting.executors,
        instances=grouping.instances,
        slots=slots,
        grouping=setting.grouping or "as recorded",
        shedder=setting.shedder,
        shed_target_s=None if limit_ms is None else limit_ms / 1000,
        batch_s=float(ran.duration_ms[learnt].mean()) / 1000,
        waiting_s=_mean(ran.waiting_ms[admitted]),
        latency_s=_mean(latencies_ms),
        latency_p95_s=float(np.quantile(latencies_ms, 0.95)) / 1000 if latencies_ms.size else 0.0,
        shed=float(ran.shed[late].mean()),
        busy=work_ms / (slots * whole_ms) if whole_ms else 0.0,
        keeps_up=keeps_up,
        holds=None if target_ms is None else keeps_up and 1000 * _mean(latencies_ms) <= target_ms,
    )


def _limits(recorded: Recorded, scenario: Scenario) -> list[int] | None:
    """Return the numbers of records of batches; None if arrivals and a trigger decide."""
    if not recorded.limited or scenario.trigger_ms:
        return None
    return [max(1, round(one * scenario.rate)) for one in recorded.counts]


def _mean(times_ms: "np.ndarray[Any, Any]") -> float:
    return float(times_ms.mean()) / 1000 if times_ms.size else 0.0


def _grouping(recorded: Recorded, setting: Setting, slots: int) -> Grouping:
    if not setting.grouping:
        # Every task of a log is an instance: it starts on the slot that is free first.
        return Grouping.named(_ROUND_ROBIN, instances=recorded.instances)
    instances = setting.instances or slots
    sized = recorded.stream.sizes is not None
    return grouping_named(setting.grouping, instances, servers=recorded.servers, sized=sized)


def _shedder(
    setting: Setting, limit_ms: float | None, instances: int, *, sized: bool
) -> Shedder | None:
    if not setting.shedder:
        return None
    if limit_ms is None:
        raise PenstockError("--shedder needs a target; give --target '2 s'")
    parameters = Shedder.registered()[setting.shedder].parameters()
    given = {"target": average(limit_ms), "instances": instances}
    if sized and "sized" in parameters:
        given["sized"] = True
    found = Shedder.named(setting.shedder, **{k: v for k, v in given.items() if k in parameters})
    if found.needs_answers:
        raise PenstockError(
            f"--shedder: {setting.shedder} needs an answer to single records, which micro-batches "
            "do not have; use las"
        )
    return found


def _keeps_up(stream: Stream, ran: TriggeredResult, *, trigger_ms: float) -> bool:
    """Whether records at the end wait about as long as those before."""
    part = stream.arrivals_ms / max(float(stream.arrivals_ms[-1]), 1e-9)
    admitted = ~ran.shed
    middle = ran.latency_ms[admitted & (part >= _LEARN) & (part < 0.5)]
    end = ran.latency_ms[admitted & (part >= 0.75)]
    if not middle.size or not end.size:
        return True
    return bool(end.mean() <= _GROWTH * middle.mean() + 0.1 * trigger_ms)
