"""A live view of operators in the terminal."""

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.control import OperatorStats
from penstock.extras import needs

if TYPE_CHECKING:
    from rich.table import Table

_REFRESH_S = 0.5


def watch(stats: Callable[[], list[OperatorStats]], seconds: float | None = None) -> None:
    """Show stats until Ctrl-C, or for a number of seconds."""
    needs("rich", extra="cli", what="watch()")
    from rich.console import Group  # noqa: PLC0415 - an extra
    from rich.live import Live  # noqa: PLC0415

    end = None if seconds is None else time.monotonic() + seconds
    with contextlib.suppress(KeyboardInterrupt), Live(auto_refresh=False) as live:
        while True:
            live.update(Group(*(view(one) for one in stats())), refresh=True)
            if end is not None and time.monotonic() >= end:
                return
            time.sleep(_REFRESH_S)


def view(stats: OperatorStats) -> "Table":
    """Return a table of one operator in one query."""
    from rich.table import Table  # noqa: PLC0415 - an extra

    fallbacks = (
        f", {stats.fallbacks} fallbacks ({stats.fallback_reason})" if stats.fallbacks else ""
    )
    shed = f", {stats.shed:,} of {stats.received:,} shed" if stats.shed else ""
    failed = f", {stats.failed:,} failed" if stats.failed else ""
    waiting = f", mean waiting {stats.waiting_ms:,.0f} ms" if stats.waiting_ms > 0 else ""
    title = (
        f"{stats.name}: {stats.state}, {stats.batches} batches, {stats.processed:,} records{shed}"
        f"{failed}, last imbalance {stats.imbalance:.2f}{waiting}{fallbacks}"
    )
    table = Table(title=title, title_justify="left")
    for column in ("instance", "records", "busy s", "expected s", "mean cost ms"):
        table.add_column(column, justify="right")
    for number, one in enumerate(stats.instances):
        busy, expected = f"{one.busy_ms / 1000:.2f}", f"{one.expected_ms / 1000:.2f}"
        table.add_row(str(number), f"{one.records:,}", busy, expected, f"{one.mean_cost_ms:.3f}")
    return table
