"""A diagnosis on one screen of 80 columns."""

import textwrap
from typing import TYPE_CHECKING

from penstock.cli.console import output

if TYPE_CHECKING:
    from penstock.diagnosis import Diagnosis, QueryDiagnosis

_WIDTH = 80
_BAR = 20
_MOST_CAUSES = 5
_MOST_CURES = 4


def summary(found: "Diagnosis", *, most: int) -> None:
    """Print the diagnosis of an application.

    Args:
        found: the diagnosis.
        most: largest number of queries.
    """
    version = f", Spark {found.version}" if found.version else ""
    _line(f"{found.name}{version}", style="bold")
    for query in found.queries[:most]:
        _line("")
        for text, style in _query(query):
            _line(text, style)
    more = len(found.queries) - most
    if more > 0:
        _line("")
        noun = "query takes" if more == 1 else "queries take"
        _line(f"{more} more {noun} less time; --queries and --json show more.")
    if found.notes:
        _line("")
    for note in found.notes:
        _wrapped(note)


def _query(query: "QueryDiagnosis") -> list[tuple[str, str]]:
    # Imported here: msgspec may be missing.
    from penstock.diagnosis.causes import Cause  # noqa: PLC0415
    from penstock.diagnosis.words import EXPLAINED, PHASES  # noqa: PLC0415

    count = len(query.examined)
    kind = "streaming query" if query.streaming else "query"
    noun = "batch" if query.streaming else "run"
    plural = "" if query.batches == 1 else ("es" if query.streaming else "s")
    lines = [
        (f"{kind} {query.name}: {query.batches} {noun}{plural}, {query.slots} slots"[:_WIDTH], ""),
        (f"  main cause: {query.main_cause}", "bold"),
        (f"  {EXPLAINED[query.main_cause]}", ""),
        (
            f"  a {noun} takes {query.duration_s / count:.2f} s; "
            f"its work needs {query.time_s['ideal'] / count:.2f} s on all slots",
            "",
        ),
    ]
    total_s = sum(query.time_s[name] for name in PHASES if name in query.time_s) or 1.0
    parts = [
        f"{words} {query.time_s[name] / total_s:.0%}"
        for name, words in PHASES.items()
        if name in query.time_s
    ]
    lines.append((f"  {'; '.join(parts)}"[:_WIDTH], ""))
    shown = [one for one in query.causes if one.share >= 0.01][:_MOST_CAUSES]
    if shown:
        lines.append((f"  {'cause':<20} {'seconds':>9} {'share':>7}", "dim"))
    for one in shown:
        bar = "█" * round(_BAR * min(one.share, 1.0))
        lines.append((f"  {one.cause!s:<20} {one.seconds:>9.2f} {one.share:>7.0%}  {bar}", ""))
    if query.cures:
        lines.append((f"  {'cure':<30} {'gain':>5}   between", "dim"))
    elif query.main_cause is not Cause.OVER_PROVISIONED:
        lines.append(("  nothing to gain here", ""))
    for cure in query.cures[:_MOST_CURES]:
        between = f"{cure.low:.2f} and {cure.high:.2f}"
        lines.append((f"  {cure.cure:<30} {cure.gain:>5.2f}   {between}", ""))
        what = textwrap.wrap(cure.what, _WIDTH - 6, max_lines=2)
        lines += [(f"      {text}", "dim") for text in what]
    for note in query.notes:
        lines += [(f"  {text}", "dim") for text in textwrap.wrap(note, _WIDTH - 2)]
    return lines


def _line(text: str, style: str = "") -> None:
    output.print(text, markup=False, style=style or None, soft_wrap=True)


def _wrapped(text: str) -> None:
    for line in textwrap.wrap(text, _WIDTH):
        _line(line)
