"""Plots from results."""

from penstock.report.plots import draw

__all__ = ["draw"]
