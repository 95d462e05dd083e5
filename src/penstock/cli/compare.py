"""`penstock compare`: two runs side by side, what was predicted and what was achieved."""

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock import __version__
from penstock.cli.console import output
from penstock.cli.folders import refuse_unwritable
from penstock.cli.remote import at_hand
from penstock.errors import PenstockError
from penstock.experiments.results import write_whole
from penstock.extras import needs
from penstock.rehearsal.trace import is_trace, read_trace

if TYPE_CHECKING:
    from penstock.diagnosis import Diagnosis
    from penstock.diagnosis.comparison import Comparison

_WIDTH = 80
_MOST_CURES = 4
_MOST_CAUSES = 6


@click.command
@click.argument("before")
@click.argument("after")
@click.option("--query", help="Query of event logs, or operator of traces and journals.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="File for the results.")
@click.option("--html", type=click.Path(path_type=Path), help="File for a page with pictures.")
def compare(
    before: str, after: str, *, query: str | None, json_file: Path | None, html: Path | None
) -> None:
    """Compare two runs: predicted and achieved gain, cause by cause.

    BEFORE and AFTER are event logs of Spark, two traces of an operator, or two journals. The
    interval of a gain holds in 95 of 100 cases, by the noise between batches.
    """
    for name, file in (("--json", json_file), ("--html", html)):
        if file is not None:
            refuse_unwritable(f"the folder of {name}", file.parent)
    if html is not None:
        needs("matplotlib", extra="plots", what="the page")
    needs("msgspec", extra="diagnose", what="penstock compare")
    with at_hand(before) as first, at_hand(after) as second:
        found = _compared(first, second, query)
    for number, one in enumerate(found):
        if number:
            _line("")
        _show(one)
    if json_file is not None:
        document = {"queries": [one.document() for one in found]}
        write_whole(json_file, (json.dumps(document, indent=1) + "\n").encode())
    if html is not None:
        from penstock.plots.comparison import comparison_page  # noqa: PLC0415

        footer = f"Made by `penstock compare`, Penstock {__version__}."
        write_whole(html, comparison_page(found, footer=footer))
        _line(f"\nOpen the page: {html.resolve().as_uri()}")


def _compared(before: str, after: str, query: str | None) -> "list[Comparison]":
    kinds = {_kind(path) for path in (before, after)}
    if len(kinds) > 1:
        raise PenstockError("BEFORE and AFTER must both be event logs, both traces, or journals")
    kind = kinds.pop()
    if kind == "trace":
        from penstock.rehearsal.compare_traces import compare_traces  # noqa: PLC0415

        return [compare_traces(read_trace(before, query), read_trace(after, query))]
    if kind == "journal":
        from penstock.rehearsal.compare_journals import (  # noqa: PLC0415
            compare_journals,
            read_journal,
        )

        return [compare_journals(read_journal(before, query), read_journal(after, query))]
    from penstock.diagnosis.comparison import compare as compared  # noqa: PLC0415

    return compared(_diagnosed("BEFORE", before), _diagnosed("AFTER", after), query)


def _kind(path: str) -> str:
    from penstock.rehearsal.compare_journals import is_journal  # noqa: PLC0415

    if is_trace(path):
        return "trace"
    return "journal" if is_journal(path) else "log"


def _diagnosed(name: str, path: str) -> "Diagnosis":
    from penstock.diagnosis import diagnose, find_logs, read_log  # noqa: PLC0415

    logs = find_logs(Path(path))
    if len(logs) > 1:
        raise PenstockError(f"{name} must be the log of one application; {path!r} has {len(logs)}")
    return diagnose(read_log(logs[0]))


def _line(text: str, style: str | None = None) -> None:
    output.print(text, markup=False, style=style, soft_wrap=True)


def _show(one: "Comparison") -> None:
    what = "a record" if one.per_record else "a batch"
    _line(f"{one.name}: {one.before_s.size} batches before, {one.after_s.size} after", "bold")
    times = f"{one.before_s.mean():.2f} s, and takes {one.after_s.mean():.2f} s"
    _line(f"  {one.measured} took {times}")
    gain = one.gain
    _line(f"  achieved: {what} is {gain.mid:.2f} times as fast ({gain.low:.2f} to {gain.high:.2f})")
    if not one.changed:
        _line("  noise between batches explains the difference")
    if one.predicted:
        _line(f"  {'predicted':<30} {'gain':>5}   {'between':<15} fits", "dim")
    for cure in one.predicted[:_MOST_CURES]:
        between = f"{cure.low:.2f} and {cure.high:.2f}"
        fits = "yes" if one.fits(cure) else "no"
        _line(f"  {cure.cure:<30.30} {cure.gain:>5.2f}   {between:<15} {fits}")
    if one.causes:
        heads = f"{'before':>8} {'after':>8} {'saved':>8}   between"
        _line(f"  {'seconds of a batch':<20} {heads}", "dim")
    for change in one.causes[:_MOST_CAUSES]:
        saved = change.saved_s
        _line(
            f"  {change.cause!s:<20} {change.before_s:>8.3f} {change.after_s:>8.3f} "
            f"{saved.mid:>8.3f}   {saved.low:.3f} and {saved.high:.3f}"
        )
    for note in one.notes:
        for line in textwrap.wrap(note, _WIDTH - 2):
            _line(f"  {line}", "dim")
