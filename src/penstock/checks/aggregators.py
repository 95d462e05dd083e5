"""Check of an aggregator on a sample of records."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from penstock.aggregators import Aggregator, Record, dumps, loads
from penstock.errors import PenstockError


def check_aggregator(
    aggregator: Aggregator[Any], records: Sequence[Record], *, seed: int = 0
) -> None:
    """Raise an AssertionError if merged partial states differ from the state of all records.

    The check cuts the records at random places, aggregates the pieces, and merges them in different
    orders. Every order must give the result of all records at once; numbers may differ by rounding.
    The check finds a merge that loses, doubles or mixes up records if the sample shows it.

    Args:
        aggregator: object with zero, update, merge and finish. If you have four functions, pass the
            `aggregator` attribute of the operator that `penstock.aggregate` returns.
        records: sample of at least 3 records of one key, in the form that `update` receives.
        seed: seed of the random cuts.

    Example:
        >>> from penstock.aggregators import Mean
        >>> check_aggregator(Mean("x"), [{"x": 1.0}, {"x": 2.0}, {"x": 6.0}])
    """
    if len(records) < 3:
        raise PenstockError(f"records must be at least 3; got {len(records)}")
    rng = np.random.default_rng(seed)
    trial = _Trial(aggregator, 1e-9 * max(_numbers(records), default=0.0))
    trial.serialises(records)
    replace(trial, tolerance=0.0).serialises([])
    whole = trial.state(records)
    law = "merge must have zero() as identity"
    trial.merges(f"{law}: merge(state, zero())", whole, left=whole, right=aggregator.zero())
    trial.merges(f"{law}: merge(zero(), state)", whole, left=aggregator.zero(), right=whole)
    for _ in range(10):
        first, second = sorted(rng.choice(np.arange(1, len(records)), size=2, replace=False))
        a, b, c = (
            trial.state(part) for part in (records[:first], records[first:second], records[second:])
        )
        where = f"for {len(records)} records cut at {first} and {second}"
        ab, bc = trial.merge(a, b), trial.merge(b, c)
        law = "merge must give the state of all records"
        trial.merges(f"{law}: merge(merge(a, b), c) {where}", whole, left=ab, right=c)
        law = "merge must be associative"
        trial.merges(f"{law}: merge(a, merge(b, c)) {where}", whole, left=a, right=bc)
        law = "merge must be commutative"
        trial.merges(f"{law}: merge(c, merge(a, b)) {where}", whole, left=c, right=ab)


@dataclass(frozen=True)
class _Trial:
    """An aggregator, and the difference of numbers that counts as rounding."""

    aggregator: Aggregator[Any]
    tolerance: float

    def state(self, records: Sequence[Record]) -> Any:  # noqa: ANN401 - any state
        """Return the state of some records."""
        state = self.aggregator.zero()
        for record in records:
            state = self.aggregator.update(state, dict(record))
        return state

    def merge(self, left: Any, right: Any) -> Any:  # noqa: ANN401 - any state
        """Merge copies, because the aggregator may change its arguments."""
        return self.aggregator.merge(self._copy(left), self._copy(right))

    def _copy(self, state: Any) -> Any:  # noqa: ANN401 - any state
        return loads(self.aggregator, dumps(self.aggregator, state))

    def merges(self, law: str, whole: Any, *, left: Any, right: Any) -> None:  # noqa: ANN401
        """Refuse two states that do not give the result of the whole when they are merged."""
        expected = self.aggregator.finish(self._copy(whole))
        found = self.aggregator.finish(self.merge(left, right))
        assert alike(expected, found, self.tolerance), (
            f"{law} must finish as {expected!r}; got {found!r}"
        )

    def serialises(self, records: Sequence[Record]) -> None:
        """Refuse a state that has another result after it was written and read."""
        expected = self.aggregator.finish(self.state(records))
        found = self.aggregator.finish(self._copy(self.state(records)))
        assert alike(expected, found, self.tolerance), (
            f"a state must be the same after it was written to bytes and read; "
            f"that of {len(records)} records must finish as {expected!r}; got {found!r}"
        )


def _numbers(records: Sequence[Record]) -> list[float]:
    values = [value for record in records for value in record.values()]
    found = [abs(float(v)) for v in values if isinstance(v, Real) and not isinstance(v, bool)]
    return [value for value in found if math.isfinite(value)]


def alike(one: Any, other: Any, tolerance: float = 0.0) -> bool:  # noqa: ANN401
    """Return whether two results are equal, numbers up to rounding."""
    if isinstance(one, Real) and isinstance(other, Real):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=1e-9, abs_tol=tolerance)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(alike(one[k], other[k], tolerance) for k in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(alike(a, b, tolerance) for a, b in pairs)
    return bool(np.all(one == other))
