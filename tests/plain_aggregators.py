"""Aggregators and the plain computations that they are held against."""

import threading

import pytest

from penstock.aggregators import Count, Mean, Sum, TopK


def known(values):
    return [value for value in values if value is not None]


def mean_of(values):
    found = known(values)
    return {"mean": sum(found) / len(found) if found else None, "count": len(found)}


# Each ready-made aggregator, and what it should give for some values of the column x.
PLAIN = {
    "count": (Count(), lambda values: {"count": len(values)}),
    "sum": (Sum("x"), lambda values: {"sum": sum(known(values)) if known(values) else None}),
    "mean": (Mean("x"), mean_of),
    "top 1": (TopK("x", 1), lambda values: {"top": sorted(known(values))[::-1][:1]}),
    "top 3": (TopK("x", 3), lambda values: {"top": sorted(known(values))[::-1][:3]}),
}
each = pytest.mark.parametrize("name", PLAIN)


def rows(values):
    return [{"x": value} for value in values]


class WithLock:
    """Counts with a state that pickle refuses; it has methods that write and read it."""

    def zero(self):
        return [threading.Lock(), 0]

    def update(self, state, record):
        return [state[0], state[1] + 1]

    def merge(self, state, other):
        return [state[0], state[1] + other[1]]

    def finish(self, state):
        return {"count": state[1]}


class WithLockAsBytes(WithLock):
    def dump(self, state):
        return str(state[1]).encode()

    def load(self, data):
        return [threading.Lock(), int(data)]
