"""Groupings that the figures of Consistent Grouping compare."""

from penstock.experiments.cg_claims import PER_WORKER
from penstock.policies.grouping import (
    BoundedHash,
    Consistent,
    Grouping,
    KeyHash,
    PartialKey,
    RandomChoices,
    RoundRobin,
    TwoChoices,
)


def schemes(bins: int) -> dict[str, Grouping]:
    """Return the groupings that Figures 4 and 7 compare, with the paper's lifetime counts."""
    return {
        "key_hash": KeyHash(bins),
        "pkg": PartialKey(bins, half_life=None),
        "potc": TwoChoices(bins, half_life=None),
        "porc_as_published": RandomChoices.as_published(bins),
        "porc": RandomChoices(bins, half_life=None),
        "bounded_hash": BoundedHash(bins, half_life=None),
        "round_robin": RoundRobin(bins),
    }


def both(workers: int) -> dict[str, Grouping]:
    """Return consistent grouping as published and ours, with lifetime counts."""
    return {
        "cg_as_published": Consistent.as_published(workers, PER_WORKER),
        "cg": Consistent(workers, PER_WORKER, half_life=None),
    }
