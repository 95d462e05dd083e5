"""Scaling by true rates, like DS2 and Flink's autoscaler."""

import math

import numpy as np

from penstock.policies.scaling.base import History, Scaler, Topology, degree_for, demands
from penstock.policies.validation import between, positive, whole


class RateBased(Scaler):
    r"""Gives every operator the number of instances that follows from its true processing rate.

    An instance that works all the time processes $1 / cost$ records a second, its true rate. The
    rate at which records arrive at the sources is propagated along the graph by selectivities:

    $$degree = \left\lceil \frac{(\lambda + pending / catchUp) \cdot cost}{usable}
      \right\rceil$$

    $usable$ is the utilization, or what fixed costs of batches leave (`Observed.usable`).

    One round reaches the right degrees, as all operators are planned at once. It does not look
    ahead: on a ramp it is late by a period.

    Args:
        utilization: share of the time that instances should be busy, in (0, 1].
        window: number of periods over which rates are averaged, >= 1.
        catch_up_s: time in which a backlog should be worked off, > 0.
        stable: number of periods in which fewer instances must have been enough before instances
            are removed, >= 1.
        min_degree: least number of instances of an operator, >= 1.
        max_degree: largest number of instances of an operator.
        min_executors: least number of executors of an application, >= 1.
        max_executors: largest number of executors of an application; None for the number at the
            time it is attached.

    Example:
        >>> RateBased(utilization=0.8).utilization
        0.8

    References:
        V. Kalavri et al., "Three steps is all you need: fast, accurate, automatic scaling
        decisions for distributed streaming dataflows" (DS2), OSDI 2018. Catch-up and
        stabilisation are those of Flink's autoscaler.
    """

    name = "rate_based"

    def __init__(
        self,
        utilization: float = 0.9,
        window: int = 2,
        catch_up_s: float = 20.0,
        stable: int = 3,
        min_degree: int = 1,
        max_degree: int = 8,
        min_executors: int = 1,
        max_executors: int | None = None,
    ) -> None:
        super().__init__(min_degree, max_degree, min_executors, max_executors)
        self.utilization = between("utilization", utilization, 0, 1, closed="high")
        self.window = whole("window", window, least=1)
        self.catch_up_s = positive("catch_up_s", catch_up_s)
        self.stable = whole("stable", stable, least=1)

    def wanted(self, topology: Topology, history: History) -> dict[str, tuple[int, str]]:
        """Plan by the rates of the last periods.

        Instances are removed only if none of the last `stable` periods needed them.
        """
        newest = self._degrees(topology, history, 0)
        recent = [newest]
        recent += [
            self._degrees(topology, history, back)
            for back in range(1, min(self.stable, history.periods))
        ]
        found = {}
        for name, (degree, why) in newest.items():
            now = history.operators[name].degree
            lately = max(one[name][0] for one in recent)
            found[name] = degree if degree >= now else min(now, lately), why
        return found

    def _degrees(
        self, topology: Topology, history: History, back: int
    ) -> dict[str, tuple[int, str]]:
        """Return the degrees that follow from the rates of so many periods ago."""
        seen = {}
        for name in topology.sources:
            received = history.operators[name].received
            upto = received[: received.size - back][-self.window :]
            seen[name] = float(np.mean(upto)) / history.period_s
        found = {}
        for name, rate_per_s in demands(topology, history, seen).items():
            one = history.operators[name]
            cost_ms = one.recent_cost_ms(self.window)
            if math.isnan(cost_ms):
                continue
            needed_per_s = rate_per_s + one.backlog / self.catch_up_s
            why = (
                f"{rate_per_s:.0f} records/s and a backlog of {one.pending:.0f} against "
                f"{1000 / cost_ms:.0f} records/s an instance"
            )
            usable = one.usable(self.utilization)
            found[name] = degree_for(needed_per_s, cost_ms, usable), why
        return found
