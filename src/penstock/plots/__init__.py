"""Plots and pages from results."""

from penstock.plots.batches import draw_batches
from penstock.plots.figures import draw
from penstock.plots.page import page

__all__ = ["draw", "draw_batches", "page"]
