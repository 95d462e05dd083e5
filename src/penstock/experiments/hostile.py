"""Beyond the papers: keys chosen by an attacker who knows the code, with the seed and without.

The attacker has a copy of the grouping, tries many keys on it, and sends those that its copy gives
to two of the instances. A hash function of a strongly universal family spreads any `m` keys that
were chosen without its seed. By Chebyshev, no one of `k` instances gets more than

    m / k + sqrt(m / delta)

of them, with probability 1 - `delta`. This is 1 + k / sqrt(m delta) times the mean.
"""

import math
from functools import lru_cache

import numpy as np

from penstock.experiments.base import Experiment, Extra, Sample, X, samples
from penstock.experiments.claims import Claim, at_least, at_most
from penstock.experiments.results import Table
from penstock.policies.grouping import Grouping
from penstock.policies.kernels import Int64

INSTANCES, TARGETS, DELTA = 8, 2, 0.05
KEYS, CANDIDATES = 1_000, 32_000
# Records of one key that the attacker sends to a fresh copy, to see where the key may go.
TRIED = 4
GUESS = 0
KNOWN, UNKNOWN = "known seed", "secret seed"
SERIES = ("key_hash", "pkg", "bounded_hash", "porc", "cg")
BOUND = 1 + INSTANCES / math.sqrt(KEYS * DELTA)


@lru_cache(maxsize=16)
def hostile_keys(name: str) -> Int64:
    """Return the keys that a grouping with the guessed seed gives to the targets most often."""
    copy = Grouping.named(name, instances=INSTANCES, seed=GUESS)
    candidates = np.random.default_rng(1).integers(-(2**63), 2**63, CANDIDATES)
    hits = np.array(
        [np.count_nonzero(copy.clone().route(np.full(TRIED, one)) < TARGETS) for one in candidates]
    )
    return candidates[np.argsort(-hits, kind="stable")[:KEYS]]


def _run(x: X, seed: int, extra: Extra) -> list[Sample]:
    found: list[Sample] = []
    drawn = int(np.random.default_rng([2, seed]).integers(1, 2**62))
    for name in SERIES:
        grouping = Grouping.named(name, instances=INSTANCES, seed=GUESS if x == KNOWN else drawn)
        found += samples(name, x, {"busiest": _busiest(grouping, hostile_keys(name))})
    for series, make in extra.items():
        keys = hostile_keys(SERIES[0])
        found += samples(series, x, {"busiest": _busiest(make(INSTANCES), keys)})
    return found


def _busiest(grouping: Grouping, keys: Int64) -> float:
    """Return the records of the busiest instance over the mean."""
    counts = np.bincount(grouping.route(keys), minlength=INSTANCES)
    return float(counts.max() / counts.mean())


def _claims(table: Table) -> list[Claim]:
    busiest = {name: table.means(name, "busiest") for name in SERIES}
    known = busiest["key_hash"][KNOWN]
    words = "busiest instance over the mean"
    return [
        at_least(f"key_hash, {KNOWN}: {words}", known, goal=0.9 * INSTANCES / TARGETS),
        *(
            at_most(f"{name}, {UNKNOWN}: {words}", busiest[name][UNKNOWN], goal=BOUND)
            for name in SERIES
        ),
    ]


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="hostile-keys",
        figure="beyond the papers",
        summary="keys chosen by an attacker",
        details="8 instances; 1,000 keys that a copy of the grouping gives to two of them",
        x_label="seed",
        xs=(KNOWN, UNKNOWN),
        run=_run,
        claims=_claims,
        streams=100,
        main_metric="busiest",
        metrics=("busiest",),
        params={
            "instances": INSTANCES,
            "targets": TARGETS,
            "keys": KEYS,
            "candidates": CANDIDATES,
            "delta": DELTA,
        },
    ),
)
