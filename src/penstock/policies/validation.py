"""Checks of parameters; their messages name the parameter and the value."""

import math
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.policies.kernels import Bool, Float64, Int64, kernel
from penstock.policies.seeds import SecretSeed

N = TypeVar("N", np.int64, np.float64)

# Largest number that kernels can count to.
LARGEST = 2**63 - 1
# Most digits of a number in a message.
_DIGITS = 30


def whole(name: str, value: object, *, least: int, most: int | None = None) -> int:
    """Return `value` if it is a whole number in [least, most]."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise PenstockError(f"{name} must be a whole number; got {value!r}")
    if value < least:
        raise PenstockError(f"{name} must be >= {least}; got {_shown(value)}")
    if most is not None and value > most:
        raise PenstockError(f"{name} must be <= {most}; got {_shown(value)}")
    return value if isinstance(value, SecretSeed) else int(value)


def _shown(value: int | np.integer[Any]) -> str:
    """Return a whole number for a message; Python refuses to print very long ones."""
    huge = abs(int(value)) >= 10**_DIGITS
    return f"a number of more than {_DIGITS} digits" if huge else str(value)


def between(name: str, value: object, low: float, high: float, *, closed: str = "") -> float:
    """Return `value` if it is in the interval; `closed` has the closed ends: "low high"."""
    number = finite(name, value)
    low_open, high_open = "low" not in closed, "high" not in closed
    too_low = number < low or (low_open and number == low)
    too_high = number > high or (high_open and number == high)
    if too_low or too_high:
        interval = f"{'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
        raise PenstockError(f"{name} must be in {interval}; got {number:g}")
    return number


def finite(name: str, value: object) -> float:
    """Return `value` if it is a number, and neither NaN nor infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise PenstockError(f"{name} must be a number; got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        raise PenstockError(f"{name} must be <= 1e308; got a larger number") from None
    if not math.isfinite(number):
        raise PenstockError(f"{name} must be finite; got {number}")
    return number


def positive(name: str, value: object) -> float:
    """Return `value` if it is a finite number above 0."""
    number = finite(name, value)
    if number <= 0:
        raise PenstockError(f"{name} must be > 0; got {number:g}")
    return number


def above_zero(name: str, value: object) -> float:
    """Return `value` if it is a number above 0, infinity included."""
    return math.inf if value == math.inf else positive(name, value)


def at_least_zero(name: str, value: object) -> float:
    """Return `value` if it is a finite number and not negative."""
    number = finite(name, value)
    if number < 0:
        raise PenstockError(f"{name} must be >= 0; got {number:g}")
    return number


def _is_ready(values: object, dtype: type[N]) -> TypeGuard[npt.NDArray[N]]:
    # Writeable, although nothing is written: Numba has another type for read-only arrays, such as
    # those of Arrow, and would compile each kernel a second time.
    return (
        isinstance(values, np.ndarray)
        and values.dtype == dtype
        and values.ndim == 1
        and values.flags.carray
    )


def int64_keys(name: str, values: npt.ArrayLike) -> Int64:
    """Return the keys as a contiguous one-dimensional int64 array, without a copy if possible."""
    return int64s(name, values, hint=". Hash other keys to int64 first")


def int64s(name: str, values: npt.ArrayLike, *, hint: str = "") -> Int64:
    """Return whole numbers as a contiguous one-dimensional int64 array.

    Args:
        name: name of the argument.
        values: whole numbers.
        hint: end of the message about other values.
    """
    if _is_ready(values, np.int64):
        return values
    try:
        array = np.asarray(values)
    except ValueError:
        raise PenstockError(
            f"{name} must be one-dimensional; got rows of different lengths"
        ) from None
    if array.ndim != 1:
        raise PenstockError(f"{name} must be one-dimensional; got shape {array.shape}")
    if array.size and array.dtype.kind not in "iu":
        raise PenstockError(f"{name} must be whole numbers; got dtype {array.dtype}{hint}")
    return np.require(array, dtype=np.int64, requirements=["C", "W"])


def float64s(name: str, values: npt.ArrayLike, length: int) -> Float64:
    """Return the values as a contiguous float64 array of the given length."""
    if _is_ready(values, np.float64):
        array = values
    else:
        try:
            array = np.require(values, dtype=np.float64, requirements=["C", "W"])
        except (TypeError, ValueError):
            raise PenstockError(f"{name} must be numbers; got {values!r}") from None
    if array.shape != (length,):
        raise PenstockError(f"{name} must have shape ({length},); got {array.shape}")
    return array


def finites(name: str, values: npt.ArrayLike, length: int) -> Float64:
    """Return the values as float64; refuse NaN and infinite ones."""
    array = float64s(name, values, length)
    if not _all_finite(array.view(np.int64)):
        bad = int(np.flatnonzero(~np.isfinite(array))[0])
        raise PenstockError(f"{name} must be finite; got {array[bad]} at {bad}")
    return array


def bools(name: str, values: npt.ArrayLike, length: int) -> Bool:
    """Return booleans as a contiguous array of the given length, or an empty one if it is empty."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise PenstockError(
            f"{name} must have shape ({length},); got rows of different lengths"
        ) from None
    if array.size and array.shape != (length,):
        raise PenstockError(f"{name} must have shape ({length},); got {array.shape}")
    if array.size and array.dtype != np.bool_:
        raise PenstockError(f"{name} must be True or False; got {array.tolist()[0]!r}")
    return np.require(array, dtype=np.bool_, requirements=["C", "W"])


def refuse_other(name: str, value: object, kind: type[Any], hint: str = "") -> None:
    """Refuse a value that is no object of a class.

    Args:
        name: name of the argument.
        value: value of the argument.
        kind: class that is needed.
        hint: how to make one.
    """
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise PenstockError(f"{name} must be {article} {kind.__name__}{hint}; got {value!r}")


# Tables of costs have single precision, and sums of squares must fit.
_LARGEST = 1e18


def non_negatives(name: str, values: npt.ArrayLike, length: int) -> Float64:
    """Return the values as float64; refuse NaN, infinite, huge and negative ones."""
    array = float64s(name, values, length)
    bad = _first_bad(array)
    if bad >= 0:
        huge = _LARGEST < array[bad] < np.inf
        limits = f"at most {_LARGEST:g}" if huge else "finite and >= 0"
        raise PenstockError(f"{name} must be {limits}; got {array[bad]} at {bad}")
    return array


@kernel
def _first_bad(values: Float64) -> int:
    for i in range(values.size):
        if not 0 <= values[i] <= _LARGEST:
            return i
    return -1


_EXPONENT = np.int64(0x7FF0_0000_0000_0000)


@kernel
def _all_finite(bits: Int64) -> bool:
    """Return whether no float64 is NaN or infinite; whole numbers are quicker to compare."""
    bad = 0
    for i in range(bits.size):
        bad += (bits[i] & _EXPONENT) == _EXPONENT
    return bad == 0


def known(what: str, value: str, names: Iterable[str]) -> str:
    """Return `value` if it is one of `names`; the error suggests the nearest name."""
    choices = sorted(names)
    if value in choices:
        return value
    near = get_close_matches(str(value), choices, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(choices)}"
    raise PenstockError(f"unknown {what} {value!r}; {hint}")


_UNITS_MS = {
    1.0: ("ms", "millisecond", "milliseconds"),
    1e3: ("s", "second", "seconds"),
    6e4: ("min", "minute", "minutes"),
    3.6e6: ("h", "hour", "hours"),
    8.64e7: ("d", "day", "days"),
    6.048e8: ("week", "weeks"),
}
_MS_OF = {name: ms for ms, names in _UNITS_MS.items() for name in names}
_PART = r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]+)\s*"


def milliseconds(name: str, value: float | str) -> float:
    """Read a duration: a number of milliseconds, or text with units.

    Example:
        >>> milliseconds("period", "2 hours"), milliseconds("period", "1 min 30 s")
        (7200000.0, 90000.0)
        >>> milliseconds("period", 250)
        250.0
    """
    if not isinstance(value, str):
        return positive(name, value)
    parts = re.findall(_PART, value)
    known_units = all(unit in _MS_OF for _, unit in parts)
    if not known_units or not re.fullmatch(f"({_PART})+", value):
        raise PenstockError(
            f"{name} must be a duration, such as '500 ms', '10 s', '5 min', '2 hours' or '1 day'; "
            f"got {value!r}"
        )
    return positive(name, sum(float(number) * _MS_OF[unit] for number, unit in parts))


def seconds(name: str, value: float | str, *, least: float) -> float:
    """Read a duration in seconds, and refuse one below `least` seconds.

    Example:
        >>> seconds("period", "10 s", least=0.2)
        10.0
    """
    found = milliseconds(name, value) / 1000
    if found < least:
        raise PenstockError(
            f"{name} must be at least {least:g} s; got {found:g} s. Numbers are milliseconds: "
            "write '10 s'"
        )
    return found


def misfit_of(found: object, kinds: str, *, most: int, least: int) -> str:
    """Return what is wrong with an array that a user's policy has returned; empty if nothing is.

    Args:
        found: returned value.
        kinds: kinds of dtypes that the array may have, as NumPy spells them.
        most: largest number of values.
        least: least number of values.

    Example:
        >>> misfit_of(np.zeros(3), "iu", most=3, least=3)
        '3 records; got dtype float64 and shape (3,)'
        >>> misfit_of(np.array([True]), "b", most=1, least=1)
        ''
    """
    if isinstance(found, np.ndarray):
        if found.ndim == 1 and found.dtype.kind in kinds and least <= found.size <= most:
            return ""
        got = f"dtype {found.dtype} and shape {found.shape}"
    else:
        got = f"a value of type {type(found).__name__}"
    few = f"{most}" if least == most else f"{least} to {most}"
    return f"{few} records; got {got}"
