"""Consoles of the commands: results go to standard output, all other messages to standard error."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

output = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

_GAP = 2


def columns(heads: Sequence[str], rows: Iterable[Sequence[str | Text]], *, left: int = 1) -> Table:
    """Return a table without frames whose cells are printed as they are, and never cut.

    Args:
        heads: heads of the columns.
        rows: cells of each row; a string is plain text, whatever brackets it has.
        left: number of columns that are aligned to the left; the others are aligned to the right.
    """
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for number, head in enumerate(heads):
        justify = "left" if number < left else "right"
        table.add_column(Text(head), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def blocks(widths: Sequence[int], room: int) -> list[range]:
    """Split columns into blocks that fit into a line; each has at least one column.

    Args:
        widths: width of each column.
        room: width of a line.

    Example:
        >>> blocks([20, 20, 20], room=50)
        [range(0, 2), range(2, 3)]
    """
    found, start, used = [], 0, 0
    for number, width in enumerate(widths):
        if number > start and used + width + _GAP > room:
            found.append(range(start, number))
            start, used = number, 0
        used += width + _GAP
    return [*found, range(start, len(widths))]
