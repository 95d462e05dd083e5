"""Plots and pages from results."""

from penstock.extras import needs

needs("matplotlib", extra="plots", what="a plot")

# The modules below import matplotlib: the check above has to come first.
from penstock.plots.batches import draw_batches, draw_busy_tasks  # noqa: E402
from penstock.plots.figures import draw  # noqa: E402
from penstock.plots.page import page  # noqa: E402

__all__ = ["draw", "draw_batches", "draw_busy_tasks", "page"]
