"""Batches of key groups, and the loads that follow from them."""

from penstock.control.keygroups import KeyGroups, Ran

INTERVAL_MS = 1_000.0
A, B, C = "a", "b", "c"


def tasks(executor, busy_ms, records=0.0, groups=1, operator=0):
    return [Ran((operator, i), executor, busy_ms, records) for i in range(groups)]


def followed(*batches, interval_ms=INTERVAL_MS):
    groups = KeyGroups()
    for batch in batches:
        groups.add(batch, interval_ms)
    return groups


def points(groups, *executors):
    """The loads of all key groups that are alive."""
    return groups.cluster(dict.fromkeys(executors or (A, B, C), 1))[0].load[:, 0]
