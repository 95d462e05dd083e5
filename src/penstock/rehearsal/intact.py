"""Whether the numbers of a recorded file can be true: files come from outside."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.control.trace import SCHEMA, BatchNumbers

# No measured number is larger, and no batch has more instances or executors.
_LARGEST, _MOST = 1e15, 100_000
# Characters of a name; a number of more digits would not be one that Python reads.
_LONGEST = 1_000


def _is_number(value: object, *, unknown: bool = False) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return 0 <= value <= _LARGEST or (unknown and value != value)  # noqa: PLR0124 - NaN


def _is_whole(value: object, least: int = 0, most: float = _LARGEST) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_few(value: object) -> bool:
    return _is_whole(value, least=1, most=_MOST)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def _is_slots(value: object) -> bool:
    return isinstance(value, dict) and len(value) <= _MOST and all(map(_is_few, value.values()))


def _is_batch(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and _is_number(value[1], unknown=True)
    )


_FIELDS: dict[str, Callable[[object], bool]] = {
    "operator": _is_text,
    "query": _is_text,
    "batch": _is_text,
    "began_ms": _is_number,
    "duration_ms": lambda value: _is_number(value, unknown=True),
    "received": _is_whole,
    "shed": _is_whole,
    "instances": lambda value: _is_whole(value, most=_MOST),
    "servers": _is_few,
    "grouping": _is_text,
    "in_front": lambda value: isinstance(value, bool),
    "executors": _is_slots,
    "trigger_ms": lambda value: value is None or _is_number(value),
    "before": _is_batch,
    "version": _is_whole,
}


def numbers_from_json(fields: dict[str, Any]) -> BatchNumbers:
    """Return the numbers of a batch.

    Args:
        fields: fields as JSON has them.

    Raises:
        pa.ArrowInvalid: if a field is missing or has an impossible value.
    """
    for name, fits in _FIELDS.items():
        if name not in fields or not fits(fields[name]):
            found = json.dumps(fields.get(name))[:40]
            raise pa.ArrowInvalid(f"its {name} cannot be {found}")
    known = {name: fields[name] for name in _FIELDS}
    before = known["before"]
    return BatchNumbers(**{**known, "before": None if before is None else tuple(before)})


def columns_of(table: pa.Table) -> dict[str, np.ndarray[Any, Any]]:
    """Return the columns of a trace as arrays; executors are texts.

    Raises:
        pa.ArrowInvalid: if a column is missing, cannot be cast, or has impossible values.
    """
    try:
        table = table.select(SCHEMA.names).cast(SCHEMA)
    except (KeyError, TypeError, ValueError) as error:
        raise pa.ArrowInvalid(str(error)) from None
    if any(table[one].null_count for one in SCHEMA.names if one != "executor"):
        raise pa.ArrowInvalid("it has nulls")
    found = {one: table[one].to_numpy() for one in SCHEMA.names if one != "executor"}
    for name in ("size", "cost_ms", "arrival_ms", "weight"):
        values = found[name]
        unknown = np.isnan(values) & (name != "weight")
        if not (unknown | ((values >= 0) & (values <= _LARGEST))).all():
            raise pa.ArrowInvalid(f"its {name} has impossible values")
    return found | {"executor": np.array(table["executor"].to_pylist(), dtype=object)}
