"""The user's function: what a task knows about it, its results, and its failures."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import StructType

from penstock.spark.executor.arrow import (
    batches_of_records,
    fitting_batches,
    pandas_of_arrow,
)
from penstock.spark.executor.forms import Form, kind_of_batch


@dataclass(frozen=True)
class UserFunction:
    """The user's part of an operator.

    Attributes:
        operator: name of the operator, for messages.
        call: the function itself; a class or an object, if it is to be opened.
        form: form of the function.
        keys: names of the key's columns, for messages.
        given: schema of the records that the function takes.
        returned: schema of the records that the function returns.
        zone: time zone of the session, in which pandas shows timestamps.
        awaits: whether the function is async.
        timeout_s: time after which an awaited call counts as failed; None for any time.
        opens: whether `call` is a class, or an object with a set-up or tear-down.
        concurrency: number of calls at a time.
    """

    operator: str
    call: Callable[..., Any]
    form: Form
    keys: tuple[str, ...]
    given: StructType
    returned: StructType
    zone: str = "UTC"
    awaits: bool = False
    timeout_s: float | None = None
    opens: bool = False
    concurrency: int = 1

    @property
    def threaded(self) -> bool:
        """Whether calls need threads: several at a time, or with a time limit."""
        return not self.awaits and (self.concurrency > 1 or self.timeout_s is not None)

    def argument_of(self, row: Row) -> Any:  # noqa: ANN401 - a dict or a Row
        """Return a record as the function takes it."""
        return row.asDict() if self.form == "dict" else row

    def batch_of(self, given: pa.RecordBatch) -> Any:  # noqa: ANN401 - a batch of any kind
        """Return a batch as the function takes it."""
        kind = kind_of_batch(self.form)
        if kind == "pandas":
            return pandas_of_arrow(given, self.zone)
        return pa.Table.from_batches([given]) if kind == "table" else given

    def fitting(self, result: Any) -> list[pa.RecordBatch]:  # noqa: ANN401 - a user's result
        """Return the batches of a batch function's result, or fail if they do not fit."""
        return fitting_batches(result, self.returned, self.zone)

    def converted(self, records: list[dict[str, Any]]) -> list[pa.RecordBatch]:
        """Return the records of a record function's results as Arrow batches."""
        return batches_of_records(self.operator, self.returned, records)


def returned_records(result: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a user's result
    """Return the records of a function's result; None stands for no record."""
    if isinstance(result, str | bytes):
        raise TypeError(f"a record must be a dict or a Row; got {result!r:.80}")
    several = (result,) if result is None or isinstance(result, dict | Row) else result
    return [_record(one) for one in several if one is not None]


def _record(one: Any) -> dict[str, Any]:  # noqa: ANN401 - a user's result
    if isinstance(one, Row) and hasattr(one, "__fields__"):
        return one.asDict()
    if not isinstance(one, dict):
        raise TypeError(f"a record must be a dict or a Row with names; got {one!r:.80}")
    return one


def returned_by_iterator(result: Any) -> Any:  # noqa: ANN401 - a user's result
    """Return an iterator over the batches that an iterator function returns."""
    if result is None or isinstance(result, pa.RecordBatch | pa.Table | pd.DataFrame):
        raise TypeError(f"an iterator function must yield batches; it returned {result!r:.80}")
    return iter(result)


def failure(operator: str, keys: tuple[str, ...], row: Row, *, error: BaseException) -> str:
    """Return a message with the operator, the record's key and the cause."""
    where = f"the record with key {key_of(row, keys)}"
    return f"penstock: operator {operator!r} failed on {where}: {cause(error)}"


def key_of(row: Row, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the key of a record, for messages."""
    return {name: _value_of(row.asDict(), name) for name in keys}


def cause(error: BaseException) -> str:
    """Return the kind and the message of an error."""
    return f"{type(error).__name__}: {error}"


def _value_of(fields: dict[str, Any], name: str) -> Any:  # noqa: ANN401 - of any type
    """Return a key's value for a message: by its name, its first part, or in another case."""
    folded = {known.lower(): known for known in fields}
    for candidate in (name, name.split(".", maxsplit=1)[0]):
        if candidate.lower() in folded:
            return fields[folded[candidate.lower()]]
    return "(an expression)"
