"""Plots and pages from results."""

from penstock.report.batches import draw_batches
from penstock.report.html import page
from penstock.report.plots import draw

__all__ = ["draw", "draw_batches", "page"]
