"""The papers' tables and figures, one module a paper."""

from penstock.experiments.base import Experiment, Extra, Sample
from penstock.experiments.posg import EXPERIMENTS as POSG

EXPERIMENTS = {experiment.name: experiment for experiment in (*POSG,)}

__all__ = ["EXPERIMENTS", "Experiment", "Extra", "Sample"]
