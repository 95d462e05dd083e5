"""Groupings: which instance gets which record."""

from penstock.policies.grouping import *  # noqa: F403
from penstock.policies.grouping import __all__  # noqa: F401 - defines what this module exports
