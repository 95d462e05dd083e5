"""Shedders: which record is dropped when time runs out."""

from penstock.policies.shedding import *  # noqa: F403
from penstock.policies.shedding import __all__  # noqa: F401 - defines what this module exports
