"""What an aggregator must do, tried on records of yours."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Real
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
        aggregator: with zero, update, merge and finish; for four functions take the `aggregator` of
            what `penstock.aggregate` returned.
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
    largest = max(_numbers(records), default=0.0)
    same = partial(_same, aggregator, 1e-9 * largest)
    _serialises(aggregator, records, 1e-9 * largest)
    _serialises(aggregator, [], 0.0)
    same("identity: merge(state, zero())", whole, whole, aggregator.zero())
    same("identity: merge(zero(), state)", whole, aggregator.zero(), whole)
    for _ in range(10):
        first, second = sorted(rng.choice(np.arange(1, len(records)), size=2, replace=False))
        a, b, c = (
            _state(aggregator, part)
            for part in (records[:first], records[first:second], records[second:])
        )
        where = f"cut at {first} and {second} of {len(records)} records"
        ab, bc = _merge(aggregator, a, b), _merge(aggregator, b, c)
        same(f"merge(merge(a, b), c) is not all records ({where})", whole, ab, c)
        same(f"associative: merge(a, merge(b, c)) ({where})", whole, a, bc)
        same(f"commutative: merge(c, merge(a, b)) ({where})", whole, c, ab)


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


def _same(
    aggregator: Aggregator[Any],
    tolerance: float,
    what: str,
    whole: Any,  # noqa: ANN401 - states
    left: Any,  # noqa: ANN401
    right: Any,  # noqa: ANN401
) -> None:
    expected = aggregator.finish(_copy(aggregator, whole))
    found = aggregator.finish(_merge(aggregator, left, right))
    assert alike(expected, found, tolerance), f"{what}: expected {expected!r}, got {found!r}"


def _numbers(records: Sequence[Record]) -> list[float]:
    values = [value for record in records for value in record.values()]
    found = [abs(float(v)) for v in values if isinstance(v, Real) and not isinstance(v, bool)]
    return [value for value in found if math.isfinite(value)]


def _serialises(aggregator: Aggregator[Any], records: Sequence[Record], tolerance: float) -> None:
    expected = aggregator.finish(_state(aggregator, records))
    found = aggregator.finish(_copy(aggregator, _state(aggregator, records)))
    same = alike(expected, found, tolerance)
    assert same, f"a state changes as bytes: from {expected!r} to {found!r}"


def alike(one: Any, other: Any, tolerance: float = 0.0) -> bool:  # noqa: ANN401
    """Whether two results are equal, numbers up to rounding."""
    if isinstance(one, Real) and isinstance(other, Real):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=1e-9, abs_tol=tolerance)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(alike(one[k], other[k], tolerance) for k in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(alike(a, b, tolerance) for a, b in pairs)
    return bool(np.all(one == other))
