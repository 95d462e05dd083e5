"""Aggregators: what a keyed aggregation keeps of its records, and how two halves make a whole.

An aggregator has four methods. `zero()` is the state of no records, `update(state, record)` the
state with one record more, `merge(state, other)` that of both, `finish(state)` what comes out. Its
merge must be associative and commutative with `zero()` as identity, and it must not matter where a
stream is cut: `penstock.checks.check_aggregator` tries that on your records.

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
from importlib import import_module
from typing import Any, Protocol, TypeVar, runtime_checkable

from penstock.errors import PenstockError
from penstock.policies.validation import whole

S = TypeVar("S")
Record = Mapping[str, Any]


@runtime_checkable
class Aggregator(Protocol[S]):
    """What `penstock.aggregate` needs. States may be changed in place and returned.

    A state must be picklable; an aggregator whose states are not has `dump(state) -> bytes` and
    `load(data) -> state` as well.
    """

    def zero(self) -> S:
        """Return the state of no records."""

    def update(self, state: S, record: Record) -> S:
        """Return the state with one record more."""

    def merge(self, state: S, other: S) -> S:
        """Return the state of the records of both."""

    def finish(self, state: S) -> Any:  # noqa: ANN401 - a record, or the value of its only column
        """Return what comes out for a key: a dict, or the value if there is one column."""


@dataclass(frozen=True)
class Functions:
    """An aggregator made of four functions."""

    zero: Callable[[], Any]
    update: Callable[[Any, Record], Any]
    merge: Callable[[Any, Any], Any]
    finish: Callable[[Any], Any]


def dumps(aggregator: Aggregator[Any], state: Any) -> bytes:  # noqa: ANN401 - whatever it keeps
    """Return a state as bytes."""
    dump = getattr(aggregator, "dump", None)
    try:
        data = dump(state) if dump else pickle.dumps(state, protocol=5)
    except Exception as error:
        raise PenstockError(
            f"a state of type {type(state).__name__} cannot be serialised "
            f"({type(error).__name__}: {error}). Keep plain values in it, define its class in a "
            "module that executors can import, or give the aggregator the methods "
            "dump(state) -> bytes and load(data) -> state"
        ) from error
    if not isinstance(data, bytes | bytearray | memoryview):
        raise PenstockError(f"dump must return bytes; got {type(data).__name__}")
    return bytes(data)


def loads(aggregator: Aggregator[Any], data: bytes) -> Any:  # noqa: ANN401 - whatever it keeps
    """Return the state that `dumps` was given."""
    load = getattr(aggregator, "load", None)
    # States come from this query's own shuffle and checkpoint, as all of Spark's Python data do.
    return load(data) if load else pickle.loads(data)  # noqa: S301


@dataclass(frozen=True)
class Count:
    """How many records: `count long`."""

    def zero(self) -> int:
        """None."""
        return 0

    def update(self, state: int, record: Record) -> int:
        """One more."""
        return state + 1

    def merge(self, state: int, other: int) -> int:
        """Both."""
        return state + other

    def finish(self, state: int) -> dict[str, int]:
        """The count."""
        return {"count": state}


@dataclass(frozen=True)
class Sum:
    """Sum of a column, null if all values are null: `sum`, of the column's type.

    Attributes:
        column: what is summed up; nulls are left out.
    """

    column: str

    def zero(self) -> Any:  # noqa: ANN401 - of the column's type
        """Nothing."""
        return None

    def update(self, state: Any, record: Record) -> Any:  # noqa: ANN401 - of the column's type
        """Add a value."""
        return self.merge(state, record[self.column])

    def merge(self, state: Any, other: Any) -> Any:  # noqa: ANN401 - of the column's type
        """Add both."""
        return state if other is None else other if state is None else state + other

    def finish(self, state: Any) -> dict[str, Any]:  # noqa: ANN401 - of the column's type
        """The sum."""
        return {"sum": state}


@dataclass(frozen=True)
class Mean:
    """Mean and count of a column's values: `mean double, count long`.

    Attributes:
        column: what is averaged; nulls are left out.
    """

    column: str

    def zero(self) -> tuple[float, int]:
        """Nothing."""
        return 0.0, 0

    def update(self, state: tuple[float, int], record: Record) -> tuple[float, int]:
        """Add a value."""
        value = record[self.column]
        return state if value is None else (state[0] + float(value), state[1] + 1)

    def merge(self, state: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
        """Add both."""
        return state[0] + other[0], state[1] + other[1]

    def finish(self, state: tuple[float, int]) -> dict[str, Any]:
        """The mean, null if there is no value."""
        total, count = state
        return {"mean": total / count if count else None, "count": count}


@dataclass(frozen=True)
class TopK:
    """The k largest values of a column, in order: `top array<...>`.

    Attributes:
        column: what is ranked; nulls and NaN are left out.
        k: how many, >= 1.
    """

    column: str
    k: int = 10

    def __post_init__(self) -> None:
        whole("k", self.k, least=1)

    def zero(self) -> list[Any]:
        """Nothing."""
        return []

    def update(self, state: list[Any], record: Record) -> list[Any]:
        """Rank a value: a heap with the smallest on top."""
        value = record[self.column]
        if value is not None and value == value:  # noqa: PLR0124 - NaN has no rank
            if len(state) < self.k:
                heapq.heappush(state, value)
            else:
                heapq.heappushpop(state, value)
        return state

    def merge(self, state: list[Any], other: list[Any]) -> list[Any]:
        """Rank both."""
        return sorted(heapq.nlargest(self.k, [*state, *other]))

    def finish(self, state: list[Any]) -> dict[str, list[Any]]:
        """The largest first."""
        return {"top": sorted(state, reverse=True)}


@dataclass(frozen=True)
class Distinct:
    """Approximate number of distinct values of a column (HyperLogLog): `distinct double`.

    It needs the package `datasketches`: `pip install 'penstock[sketches]'`.

    Attributes:
        column: what is counted; nulls are left out.
        precision: log2 of the registers, 4 to 21: the standard error is 1.04 / sqrt(2**precision),
            1.6% for 12, with 2 KB a key.
    """

    column: str
    precision: int = 12

    def __post_init__(self) -> None:
        whole("precision", self.precision, least=4, most=21)
        _sketches()

    def zero(self) -> Any:  # noqa: ANN401 - a sketch
        """Nothing."""
        sketches = _sketches()
        return sketches.hll_sketch(self.precision, sketches.tgt_hll_type.HLL_4)

    def update(self, state: Any, record: Record) -> Any:  # noqa: ANN401 - a sketch
        """Count a value, by its text if it is not a number."""
        value = record[self.column]
        if value is not None:
            state.update(value if isinstance(value, int | float | str) else repr(value))
        return state

    def merge(self, state: Any, other: Any) -> Any:  # noqa: ANN401 - a sketch
        """Count both."""
        union = _sketches().hll_union(self.precision)
        union.update(state)
        union.update(other)
        return union.get_result()

    def finish(self, state: Any) -> dict[str, float]:  # noqa: ANN401 - a sketch
        """The estimate."""
        # A sketch that was never merged has another estimator: results must not depend on that.
        return {"distinct": float(self.merge(state, state).get_estimate())}

    def dump(self, state: Any) -> bytes:  # noqa: ANN401 - a sketch
        """Return the sketch's own form, which other languages read as well."""
        return bytes(state.serialize_compact())

    def load(self, data: bytes) -> Any:  # noqa: ANN401 - a sketch
        """Read a sketch."""
        return _sketches().hll_sketch.deserialize(data)


def _sketches() -> Any:  # noqa: ANN401 - the module
    try:
        return import_module("datasketches")
    except ImportError:
        raise PenstockError(
            "Distinct needs the package datasketches; install it with "
            "pip install 'penstock[sketches]'"
        ) from None
