"""Measures of balance that the simulator, the control loop and the experiments share."""

from penstock.policies.kernels import Float64


def imbalance(busy_ms: Float64) -> float:
    """Return the busy time of the busiest instance over the mean, minus 1; 0 if none was busy.

    Example:
        >>> import numpy as np
        >>> imbalance(np.array([30.0, 10.0]))
        0.5
    """
    mean = float(busy_ms.mean()) if busy_ms.size else 0.0
    return float(busy_ms.max()) / mean - 1 if mean > 0 else 0.0
