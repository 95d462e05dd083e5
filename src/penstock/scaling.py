"""Scalers: how many instances and executors there are."""

from penstock.policies.scaling import *  # noqa: F403
from penstock.policies.scaling import __all__  # noqa: F401 - defines what this module exports
