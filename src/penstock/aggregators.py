"""Aggregators: the state that a keyed aggregation keeps, and how two states are merged.

An aggregator has four methods. `zero()` returns the state of no records, and
`update(state, record)` the state with one record more. `merge(state, other)` returns the state of
the records of both, and `finish(state)` the result. `merge` must be associative and commutative,
with `zero()` as identity, and results must not depend on where a stream is cut.
`penstock.checks.check_aggregator` checks that on your records.

Example:
    >>> mean = Mean("price")
    >>> left, right = mean.zero(), mean.zero()
    >>> left = mean.update(left, {"price": 2.0})
    >>> right = mean.update(right, {"price": 4.0})
    >>> mean.finish(mean.merge(left, right))
    {'mean': 3.0, 'count': 2}
"""

import heapq
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from penstock.errors import PenstockError
from penstock.extras import needs
from penstock.policies.validation import whole

S = TypeVar("S")
Record = Mapping[str, Any]


@runtime_checkable
class Aggregator(Protocol[S]):
    """The four methods that `penstock.aggregate` calls on executors.

    They may change a state in place and return it. States must be picklable. An aggregator whose
    states are not needs the methods `dump(state) -> bytes` and `load(data) -> state` as well.
    """

    def zero(self) -> S:
        """Return the state of no records."""

    def update(self, state: S, record: Record) -> S:
        """Return the state with one record more."""

    def merge(self, state: S, other: S) -> S:
        """Return the state of the records of both."""

    def finish(self, state: S) -> Any:  # noqa: ANN401 - a record, or the value of its only column
        """Return the result of a key: a dict by column, or the value of the only column."""


@dataclass(frozen=True)
class Functions:
    """An aggregator made of four functions."""

    zero: Callable[[], Any]
    update: Callable[[Any, Record], Any]
    merge: Callable[[Any, Any], Any]
    finish: Callable[[Any], Any]


def dumps(aggregator: Aggregator[Any], state: Any) -> bytes:  # noqa: ANN401 - any state
    """Return a state as bytes."""
    dump = getattr(aggregator, "dump", None)
    try:
        data = dump(state) if dump else pickle.dumps(state, protocol=5)
    except Exception as error:
        raise PenstockError(
            f"a state of type {type(state).__name__} cannot be serialised "
            f"({type(error).__name__}: {error}). Keep plain values in it, or define its class in "
            "a module that executors can import; or give the aggregator the methods "
            "dump(state) -> bytes and load(data) -> state"
        ) from error
    if not isinstance(data, bytes | bytearray | memoryview):
        raise PenstockError(f"dump must return bytes; got {type(data).__name__}")
    return bytes(data)


def loads(aggregator: Aggregator[Any], data: bytes) -> Any:  # noqa: ANN401 - any state
    """Return the state that `dumps` has serialised."""
    load = getattr(aggregator, "load", None)
    # States come from the shuffle and the checkpoint of the same query, so pickle is safe here.
    return load(data) if load else pickle.loads(data)  # noqa: S301


@dataclass(frozen=True)
class Count:
    """Number of records: `count long`."""

    def zero(self) -> int:
        """Return 0."""
        return 0

    def update(self, state: int, record: Record) -> int:
        """Count one more record."""
        return state + 1

    def merge(self, state: int, other: int) -> int:
        """Return the sum of both counts."""
        return state + other

    def finish(self, state: int) -> dict[str, int]:
        """Return the count."""
        return {"count": state}


@dataclass(frozen=True)
class Sum:
    """Sum of a column, null if all values are null: `sum`, of the column's type.

    Attributes:
        column: column that is summed up; nulls are left out.
    """

    column: str

    def zero(self) -> Any:  # noqa: ANN401 - of the column's type
        """Return None, the sum of no values."""
        return None

    def update(self, state: Any, record: Record) -> Any:  # noqa: ANN401 - of the column's type
        """Add the value of a record."""
        return self.merge(state, record[self.column])

    def merge(self, state: Any, other: Any) -> Any:  # noqa: ANN401 - of the column's type
        """Return the sum of both."""
        return state if other is None else other if state is None else state + other

    def finish(self, state: Any) -> dict[str, Any]:  # noqa: ANN401 - of the column's type
        """Return the sum."""
        return {"sum": state}


@dataclass(frozen=True)
class Mean:
    """Mean and count of a column's values: `mean double, count long`.

    Attributes:
        column: column that is averaged; nulls are left out.
    """

    column: str

    def zero(self) -> tuple[float, int]:
        """Return a sum and a count of 0."""
        return 0.0, 0

    def update(self, state: tuple[float, int], record: Record) -> tuple[float, int]:
        """Add the value of a record."""
        value = record[self.column]
        return state if value is None else (state[0] + float(value), state[1] + 1)

    def merge(self, state: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
        """Return the sums of both."""
        return state[0] + other[0], state[1] + other[1]

    def finish(self, state: tuple[float, int]) -> dict[str, Any]:
        """Return the mean, null if there is no value, and the count."""
        total, count = state
        return {"mean": total / count if count else None, "count": count}


@dataclass(frozen=True)
class TopK:
    """The k largest values of a column, in order: `top array<...>`.

    Attributes:
        column: column that is ranked; nulls and NaN are left out.
        k: number of values that are kept, >= 1.
    """

    column: str
    k: int = 10

    def __post_init__(self) -> None:
        whole("k", self.k, least=1)

    def zero(self) -> list[Any]:
        """Return an empty list."""
        return []

    def update(self, state: list[Any], record: Record) -> list[Any]:
        """Add the value of a record to a heap of the largest, with the smallest on top."""
        value = record[self.column]
        if value is not None and value == value:  # noqa: PLR0124 - NaN has no rank
            if len(state) < self.k:
                heapq.heappush(state, value)
            else:
                heapq.heappushpop(state, value)
        return state

    def merge(self, state: list[Any], other: list[Any]) -> list[Any]:
        """Return the largest values of both."""
        return sorted(heapq.nlargest(self.k, [*state, *other]))

    def finish(self, state: list[Any]) -> dict[str, list[Any]]:
        """Return the values, the largest one first."""
        return {"top": sorted(state, reverse=True)}


@dataclass(frozen=True)
class Distinct:
    """Approximate number of distinct values of a column (HyperLogLog): `distinct double`.

    Values of a column have one type: a whole number and a floating-point number, such as 1 and 1.0,
    would be two values. Maps are equal if their entries are, in any order.

    It needs the package `datasketches`: `pip install '.[sketches]'`.

    Attributes:
        column: column whose values are counted; nulls are left out.
        precision: log2 of the number of registers, 4 to 21. The standard error is
            1.04 / sqrt(2**precision): 1.6% for 12, with 2 KB a key.
    """

    column: str
    precision: int = 12

    def __post_init__(self) -> None:
        whole("precision", self.precision, least=4, most=21)
        _sketches()

    def zero(self) -> Any:  # noqa: ANN401 - a sketch
        """Return an empty sketch."""
        sketches = _sketches()
        return sketches.hll_sketch(self.precision, sketches.tgt_hll_type.HLL_4)

    def update(self, state: Any, record: Record) -> Any:  # noqa: ANN401 - a sketch
        """Count the value of a record, by its text if it is not a number."""
        value = record[self.column]
        if value is not None:
            state.update(_hashable(value))
        return state

    def merge(self, state: Any, other: Any) -> Any:  # noqa: ANN401 - a sketch
        """Return the union of both sketches."""
        union = _sketches().hll_union(self.precision)
        union.update(state)
        union.update(other)
        return union.get_result()

    def finish(self, state: Any) -> dict[str, float]:  # noqa: ANN401 - a sketch
        """Return the estimated number of values."""
        # A sketch that was never merged has another estimator, so every sketch is merged once.
        return {"distinct": float(self.merge(state, state).get_estimate())}

    def dump(self, state: Any) -> bytes:  # noqa: ANN401 - a sketch
        """Return the sketch in its own format, which other languages read as well."""
        return bytes(state.serialize_compact())

    def load(self, data: bytes) -> Any:  # noqa: ANN401 - a sketch
        """Return the sketch that `dump` has serialised."""
        return _sketches().hll_sketch.deserialize(data)


def _hashable(value: object) -> int | float | str:
    """Return a number or a text that sketches count; they would leave out an empty text."""
    if isinstance(value, str):
        return value or "\x00"
    if isinstance(value, float) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    return repr(_ordered(value))


def _ordered(value: object) -> object:
    """Return a value whose text does not depend on the order of entries of its maps."""
    if isinstance(value, dict):
        return sorted(((_ordered(k), _ordered(v)) for k, v in value.items()), key=repr)
    if isinstance(value, list | tuple):
        return [_ordered(one) for one in value]
    return value


def _sketches() -> Any:  # noqa: ANN401 - the module
    return needs("datasketches", extra="sketches", what="Distinct")
