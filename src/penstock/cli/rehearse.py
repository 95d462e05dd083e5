"""`penstock rehearse`: what-if questions about a recorded stream, in the simulator."""

import json
import textwrap
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress

from penstock import __version__
from penstock.cli.console import columns, errors, output
from penstock.cli.folders import refuse_unwritable
from penstock.cli.remote import at_hand, local_path
from penstock.errors import PenstockError
from penstock.experiments.results import write_whole
from penstock.extras import needs
from penstock.policies.grouping import Grouping
from penstock.policies.shedding import Shedder
from penstock.policies.validation import known, milliseconds
from penstock.rehearsal import (
    Outcome,
    Recorded,
    Scenario,
    frontier,
    is_trace,
    read_trace,
    recommended,
    recorded,
    settings_of,
)
from penstock.rehearsal import (
    rehearse as rehearsed,
)

_PICTURE = "rehearsal.png"
_WIDTH = 80


@click.command
@click.argument("trace")
@click.option("--operator", help="Operator of a trace, or query of a log.")
@click.option("--executors", type=int, multiple=True, help="Number of executors; may be repeated.")
@click.option("--instances", type=int, multiple=True, help="Number of instances; may be repeated.")
@click.option("--grouping", multiple=True, help="Name of a grouping; may be repeated.")
@click.option("--shedder", default="", help="Name of a shedder, such as las; needs --target.")
@click.option("--target", help="Limit of the mean latency, such as '2 s'.")
@click.option("--rate", default=1.0, help="Factor of the rate of records.")
@click.option("--slow-executor", default=1.0, help="Slowdown of one executor.")
@click.option("--hot-key", default=0.0, help="Share of the records that get one key.")
@click.option("--trigger", help="Interval of the trigger, such as '5 s'; 0 for none.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="File for the results.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for a picture.")
def rehearse(
    trace: str,
    *,
    operator: str | None,
    executors: tuple[int, ...],
    instances: tuple[int, ...],
    grouping: tuple[str, ...],
    shedder: str,
    target: str | None,
    rate: float,
    slow_executor: float,
    hot_key: float,
    trigger: str | None,
    json_file: Path | None,
    out: Path | None,
) -> None:
    """Rehearse other settings on a recorded stream, in the simulator.

    TRACE is a folder that an operator has recorded to: penstock.balance(..., record="folder"). An
    event log of Spark will do, too, for other questions than --grouping and --shedder. Both may be
    on any file system that Spark knows (hdfs://...).
    """
    for name in grouping:
        known("--grouping", name, Grouping.registered())
    if shedder:
        known("--shedder", shedder, Shedder.registered())
        if target is None:
            raise PenstockError("--shedder needs a target; give --target '2 s'")
    scenario = Scenario(
        rate=rate,
        slow_executor=slow_executor,
        hot_key=hot_key,
        trigger_ms=None if trigger is None else _trigger_ms(trigger),
        target_ms=None if target is None else milliseconds("--target", target),
    )
    if json_file is not None:
        refuse_unwritable("the folder of --json", json_file.parent)
    if out is not None:
        refuse_unwritable("--out", out)
        needs("matplotlib", extra="plots", what="the picture")
    found = _recorded(trace, operator)
    settings = settings_of(
        found, executors=executors, instances=instances, groupings=grouping, shedder=shedder
    )
    with Progress(console=errors, transient=True) as bar:
        task = bar.add_task("rehearsing", total=len(settings))
        outcomes = rehearsed(found, settings, scenario, progress=lambda: bar.advance(task))
    _show(found, outcomes, scenario)
    if json_file is not None:
        document = _document(found, outcomes, scenario)
        write_whole(json_file, (json.dumps(document, indent=1) + "\n").encode())
    if out is not None:
        _draw(out / _PICTURE, found, outcomes, scenario=scenario)


def _recorded(trace: str, operator: str | None) -> Recorded:
    """Read a trace, or an event log."""
    trace = local_path(trace)
    if is_trace(trace):
        return recorded(read_trace(trace, operator))
    with at_hand(trace) as local:
        if not Path(local).exists() or is_trace(local):
            return recorded(read_trace(local, operator))
        needs("msgspec", extra="diagnose", what="an event log")
        from penstock.rehearsal.from_log import recorded_log  # noqa: PLC0415

        return recorded_log(local, operator)


def _trigger_ms(text: str) -> float:
    return 0.0 if text.strip() == "0" else milliseconds("--trigger", text)


def _line(text: str, style: str | None = None) -> None:
    output.print(text, markup=False, style=style, soft_wrap=True)


def _wrapped(text: str, style: str) -> None:
    for line in textwrap.wrap(text, _WIDTH):
        _line(line, style)


def _show(found: Recorded, outcomes: list[Outcome], scenario: Scenario) -> None:
    trigger = f"every {found.trigger_ms / 1000:g} s" if found.trigger_ms else "one after the other"
    slots = sum(one.slots for one in found.workers)
    _line(f"{found.name}: {found.batches} batches, {len(found.stream):,} records", "bold")
    count = len(found.workers)
    noun = "executor" if count == 1 else "executors"
    _line(f"recorded on {count} {noun} with {slots} slots, batches {trigger}")
    if found.measured_ms.size:
        _line(
            f"check: the operator took {found.measured_ms.mean() / 1000:.2f} s of a batch, "
            f"rehearsed {found.rehearsed_ms.mean() / 1000:.2f} s;"
        )
        _line(
            f"  error of a batch {found.error:.0%}; the rest of a batch takes "
            f"{found.overheads.batch_ms / 1000:.2f} s"
        )
    for note in found.notes:
        _wrapped(note, "dim")
    _line("")
    sheds = any(one.shedder for one in outcomes)
    best = frontier(outcomes)
    heads = ["grouping, shedder" if sheds else "grouping", "exec.", "slots"]
    heads += ["batch", "wait", "latency", "p95", *(["shed"] if sheds else []), ""]
    output.print(columns(heads, [_row(one, one in best, sheds=sheds) for one in outcomes], left=1))
    _line("seconds; wait: arrival to execution; latency: arrival to end of batch; means", "dim")
    _line("* on the frontier: no other setting is better in slots, shedding and latency", "dim")
    if not all(one.keeps_up for one in outcomes):
        _line("grows: the setting does not keep up; its times grow with the trace", "dim")
    _line("")
    _wrapped(_advice(outcomes, scenario), "bold")


def _row(one: Outcome, best: bool, *, sheds: bool) -> list[str]:
    state = "holds" if one.holds else ("" if one.holds is None else "misses")
    state = state if one.keeps_up else "grows"
    shown = f"{state} *" if best else f"{state}  "
    return [
        f"{one.grouping}, {one.shedder}" if one.shedder else one.grouping,
        str(one.executors),
        str(one.slots),
        f"{one.batch_s:.2f}",
        f"{one.waiting_s:.2f}",
        f"{one.latency_s:.2f}",
        f"{one.latency_p95_s:.2f}",
        *([f"{one.shed:.1%}"] if sheds else []),
        shown,
    ]


def _words(one: Outcome) -> str:
    noun = "executor" if one.executors == 1 else "executors"
    shed = ""
    if one.shedder:
        shed = f", shedder {one.shedder} with average({1000 * (one.shed_target_s or 0):.0f}), "
        shed += f"which sheds {one.shed:.1%}"
    return (
        f"{one.executors} {noun}, {one.instances} instances, grouping {one.grouping}{shed}: "
        f"latency {one.latency_s:.2f} s"
    )


def _advice(outcomes: list[Outcome], scenario: Scenario) -> str:
    if scenario.target_ms is None:
        return "Give --target, such as '2 s', for a recommendation."
    target = f"{scenario.target_ms / 1000:g} s"
    chosen = recommended(outcomes)
    if chosen is None:
        return f"No setting holds {target}; try more --executors, or a --shedder such as las."
    return f"Cheapest setting that holds {target}: {_words(chosen)}."


def _document(found: Recorded, outcomes: list[Outcome], scenario: Scenario) -> dict[str, Any]:
    chosen = recommended(outcomes)
    best = frontier(outcomes)
    return {
        "operator": found.name,
        "version": __version__,
        "batches": found.batches,
        "records": len(found.stream),
        "recorded": {
            "executors": len(found.workers),
            "slots": sum(one.slots for one in found.workers),
            "instances": found.instances,
            "grouping": found.grouping,
            "trigger_ms": found.trigger_ms,
        },
        "check": {
            "measured_s": _seconds(found.measured_ms),
            "rehearsed_s": _seconds(found.rehearsed_ms),
            "error": round(found.error, 4) if found.measured_ms.size else None,
        },
        "scenario": vars(scenario),
        "outcomes": [{**one.document(), "frontier": one in best} for one in outcomes],
        "recommended": None if chosen is None else chosen.document(),
        "notes": list(found.notes),
    }


def _seconds(times_ms: Any) -> float | None:  # noqa: ANN401 - an array
    return round(float(times_ms.mean()) / 1000, 4) if times_ms.size else None


def _draw(file: Path, found: Recorded, outcomes: list[Outcome], *, scenario: Scenario) -> None:
    from penstock.plots.rehearsal import draw_rehearsal  # noqa: PLC0415

    file.parent.mkdir(parents=True, exist_ok=True)
    target_s = None if scenario.target_ms is None else scenario.target_ms / 1000
    title = f"{found.name}: latency over slots, simulated from {found.batches} recorded batches"
    write_whole(file, draw_rehearsal(outcomes, target_s=target_s, title=title))
    output.print(f"Picture: {file.resolve().as_uri()}", markup=False, soft_wrap=True)
