"""Names of the few keys that the driver asks for: a dashboard shows them."""

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.control.key_names import LONGEST, Names, readable
from penstock.policies.kernels import Int64

# Characters of a value that are looked at: a key may be a long text.
_READ = 4 * LONGEST


class NamesSought:
    """Finds the names of keys among the records of one task.

    Args:
        wanted: hashes of keys whose names are wanted; mostly none.
    """

    def __init__(self, wanted: tuple[int, ...]) -> None:
        self._wanted = np.array(wanted, dtype=np.int64)
        self._found: dict[int, str] = {}

    @property
    def found(self) -> Names:
        """The names found so far."""
        return tuple(self._found.items())

    def look(self, keys: Int64, given: pa.RecordBatch, columns: tuple[str, ...]) -> None:
        """Look at the records of an Arrow batch.

        Args:
            keys: hashes of their keys.
            given: columns of the records.
            columns: names of the key's columns. A key that is an expression has no name.
        """
        if not self._wanted.size:
            return
        for key in self._wanted[np.isin(self._wanted, keys)]:
            name = _name(given.slice(int(np.argmax(keys == key)), 1), columns)
            if name is not None:
                self._found[int(key)] = name
        self._wanted = np.array([one for one in self._wanted if int(one) not in self._found])


def _name(record: pa.RecordBatch, columns: tuple[str, ...]) -> str | None:
    """Return the values of a record's key as one text; None if one is not a column."""
    try:
        values = [_value(record, column.strip("`")) for column in columns]
    except KeyError:
        return None
    return readable(", ".join("null" if one is None else str(one)[:_READ] for one in values))


def _value(record: pa.RecordBatch, column: str) -> Any:  # noqa: ANN401 - of any type
    """Return the value of a column, or of a field inside of one; case does not matter to Spark."""
    names = [name.lower() for name in record.schema.names]
    if column.lower() in names:
        return record.column(names.index(column.lower()))[0].as_py()
    first, *parts = column.lower().split(".")
    if not parts or first not in names:
        raise KeyError(column)
    value = record.column(names.index(first))[0].as_py()
    for part in parts:
        if value is not None:
            fields = value if isinstance(value, dict) else {}
            value = {name.lower(): one for name, one in fields.items()}[part]
    return value
