"""What an aggregator must do, tried on records of yours."""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.aggregators import Aggregator, Record, dumps, loads
from penstock.errors import PenstockError


def check_aggregator(
    aggregator: Aggregator[Any], records: Sequence[Record], *, seed: int = 0
) -> None:
    """Raise an AssertionError if partial states of an aggregator do not make a whole.

    The records are cut at random places, aggregated piece by piece, and merged in different
    orders; all must give what aggregating them at once gives (numbers may differ by rounding).
    A merge that loses, doubles or mixes up records is found if the sample shows it.

    Args:
        aggregator: with zero, update, merge and finish.
        records: a sample of at least 3, as `update` gets them; all of one key.
        seed: of the random cuts.

    Example:
        >>> from penstock.aggregators import Mean
        >>> check_aggregator(Mean("x"), [{"x": 1.0}, {"x": 2.0}, {"x": 6.0}])
    """
    if len(records) < 3:
        raise PenstockError(f"records must be at least 3; got {len(records)}")
    rng = np.random.default_rng(seed)
    whole = _state(aggregator, records)
    _same(aggregator, "identity: merge(state, zero())", whole, whole, aggregator.zero())
    _same(aggregator, "identity: merge(zero(), state)", whole, aggregator.zero(), whole)
    _serialises(aggregator, whole)
    _serialises(aggregator, aggregator.zero())
    for _ in range(10):
        first, second = sorted(rng.choice(np.arange(1, len(records)), size=2, replace=False))
        a, b, c = (
            _state(aggregator, part)
            for part in (records[:first], records[first:second], records[second:])
        )
        where = f"cut at {first} and {second} of {len(records)} records"
        ab, bc = _merge(aggregator, a, b), _merge(aggregator, b, c)
        _same(aggregator, f"merge(merge(a, b), c) is not all records ({where})", whole, ab, c)
        _same(aggregator, f"associative: merge(a, merge(b, c)) ({where})", whole, a, bc)
        _same(aggregator, f"commutative: merge(c, merge(a, b)) ({where})", whole, c, ab)


def _state(aggregator: Aggregator[Any], records: Sequence[Record]) -> Any:  # noqa: ANN401
    state = aggregator.zero()
    for record in records:
        state = aggregator.update(state, dict(record))
    return state


def _merge(aggregator: Aggregator[Any], left: Any, right: Any) -> Any:  # noqa: ANN401
    """Merge copies, as the aggregator may change what it is given."""
    return aggregator.merge(_copy(aggregator, left), _copy(aggregator, right))


def _copy(aggregator: Aggregator[Any], state: Any) -> Any:  # noqa: ANN401
    return loads(aggregator, dumps(aggregator, state))


def _same(aggregator: Aggregator[Any], what: str, whole: Any, left: Any, right: Any) -> None:  # noqa: ANN401
    expected = aggregator.finish(_copy(aggregator, whole))
    found = aggregator.finish(_merge(aggregator, left, right))
    assert alike(expected, found), f"{what}: expected {expected!r}, got {found!r}"


def _serialises(aggregator: Aggregator[Any], state: Any) -> None:  # noqa: ANN401
    expected = aggregator.finish(copy.deepcopy(_copy(aggregator, state)))
    found = aggregator.finish(_copy(aggregator, _copy(aggregator, state)))
    assert alike(expected, found), f"a state changes as bytes: from {expected!r} to {found!r}"


def alike(one: Any, other: Any) -> bool:  # noqa: ANN401 - whatever comes out
    """Whether two results are equal, numbers up to rounding."""
    if isinstance(one, float) or isinstance(other, float):
        both = isinstance(one, float | int) and isinstance(other, float | int)
        return both and (
            math.isclose(one, other, rel_tol=1e-9) or (math.isnan(one) and math.isnan(other))
        )
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(alike(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)
