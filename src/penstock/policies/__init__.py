"""Pure algorithms: NumPy and Numba. No Spark, no clock, no input or output."""

from penstock.policies.base import Policy

__all__ = ["Policy"]
