"""One style for all pictures: colours, panels, axes, legends, and the PNG."""

import io
import textwrap
from collections.abc import Sequence

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

GREY, BLUE, LIGHT_BLUE, ORANGE, RED = "#8c8c8c", "#1565c0", "#5fa8e8", "#d1822c", "#c62828"
GREEN, LIGHT_GREEN, PURPLE, TEAL = "#2e7d32", "#7cb342", "#8e24aa", "#00838f"
BROWN, LIGHT_ORANGE = "#795548", "#f0b27a"

# Colours of the series that experiments have. What Penstock recommends is blue, the paper's own
# version is orange, the best that is possible is green, and baselines have the other colours.
COLOURS = {
    "round_robin": GREY,
    "repartition": GREY,
    "posg_as_published": ORANGE,
    "posg": BLUE,
    "posg_frugal": LIGHT_BLUE,
    "full_knowledge": GREEN,
    "key_hash": RED,
    "pkg": BROWN,
    "potc": PURPLE,
    "porc_as_published": LIGHT_ORANGE,
    "porc": LIGHT_BLUE,
    "bounded_hash": TEAL,
    "cg_as_published": ORANGE,
    "cg": BLUE,
    "cg_4_per_slot": LIGHT_BLUE,
    "random_drop": GREY,
    "never": GREY,
    "mean_cost": RED,
    "las_as_published": ORANGE,
    "las": BLUE,
    "las_cheap_first": PURPLE,
    "full_knowledge_cheap_first": LIGHT_GREEN,
    "minimum": GREY,
    "expert": GREEN,
    "threshold": RED,
    "rate_based": PURPLE,
    "preventive_as_published": ORANGE,
    "preventive": BLUE,
    "flux": RED,
    "lower_bound": GREEN,
    "highs": ORANGE,
    "local_search": BLUE,
    "local_search_of_10": LIGHT_BLUE,
    "unrestricted": GREEN,
    "drain_first": ORANGE,
    "cola": RED,
    "albic_as_published": ORANGE,
    "albic": BLUE,
    "milp": TEAL,
    "cg_as_published_of_20": RED,
    "cg_of_20": LIGHT_BLUE,
    "cg_of_100": PURPLE,
    "repartition_8": GREY,
    "repartition_64": RED,
    "longest_first": LIGHT_BLUE,
    "factoring": BLUE,
    "shared_queue": GREEN,
    "best_division": PURPLE,
}
# Colours of other series, such as policies of a user's own.
SPARE = ("#c2185b", "#00acc1", "#9e9d24", "#37474f")

_DPI = 130
# Rough widths in a legend, in inches: line and gaps of an entry, and one character.
_ENTRY, _CHARACTER = 0.6, 0.085


def panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """Return a figure with styled panels, row by row; the size is in inches."""
    figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for panel in grid.flat:
        panel.grid(alpha=0.25)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, list(grid.flat)


def whole_numbers(axis: Axis) -> None:
    """Give an axis that counts things whole numbers, with commas between thousands."""
    axis.set_major_locator(MaxNLocator(integer=True, nbins=8, steps=[1, 2, 5, 10]))
    plain_numbers(axis)


def plain_numbers(axis: Axis) -> None:
    """Write numbers such as 0.00001 and 20,000 in full, without powers of ten."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))


def _plain(value: float) -> str:
    """Return a number in full.

    Example:
        >>> _plain(0.00001), _plain(20000.0)
        ('0.00001', '20,000')
    """
    return f"{value:,.10f}".rstrip("0").rstrip(".")


def legend_below(figure: Figure, drawn: Sequence[Axes]) -> None:
    """Put one legend for all panels below them, where it covers no curve."""
    entries = {
        name: handle
        for panel in drawn
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    widest = max(_ENTRY + _CHARACTER * len(name) for name in entries)
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=max(1, min(len(entries), int(figure.get_figwidth() / widest))),
        frameon=False,
    )


def headline(figure: Figure, *lines: str) -> None:
    """Put a title above all panels; long lines are wrapped to the width of the figure."""
    width = int(figure.get_figwidth() / _CHARACTER)
    figure.suptitle("\n".join(textwrap.fill(line, width) for line in lines), size=11)


def png(figure: Figure, dpi: int = _DPI) -> bytes:
    """Return the figure as PNG, and close it."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=dpi)
    plt.close(figure)
    return image.getvalue()
