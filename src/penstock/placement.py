"""Placers: on which executor each key group lives."""

from penstock.policies.placement import *  # noqa: F403
from penstock.policies.placement import __all__  # noqa: F401 - defines what this module exports
