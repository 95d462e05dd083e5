"""Checks of the arguments that all operators share: key, name, schema, columns, functions."""

from collections.abc import Sequence

from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
)

from penstock.errors import PenstockError, first_line
from penstock.spark.executor.columns import RESERVED

Key = str | Column | Sequence[str | Column]
Keys = tuple[str | Column, ...]


def checked_keys(key: Key | None) -> Keys:
    """Return the columns of a key, or refuse a value that is none."""
    several = tuple(key) if isinstance(key, Sequence) and not isinstance(key, str) else ()
    keys = (key,) if isinstance(key, str | Column) else several
    if not keys or not all(isinstance(one, str | Column) for one in keys):
        raise PenstockError(f"key must be a column or a list of columns; got {key!r}")
    return keys


def refuse_no_size(size: object) -> None:
    """Refuse a size that is neither a column nor an expression."""
    if size is not None and not (isinstance(size, Column) or (isinstance(size, str) and size)):
        raise PenstockError(
            f"size must be a column or an expression, such as 'octet_length(text)'; got {size!r}"
        )


def size_column(frame: DataFrame, size: str | Column) -> Column:
    """Return the size of each record as a double; null if it is unknown."""
    plain = isinstance(size, str) and size not in frame.columns
    try:
        column = sf.expr(str(size)) if plain else column_of(frame, size)
        kind = frame.select(column).schema.fields[0].dataType
    except PySparkException as error:
        raise PenstockError(
            "size must be a column of the DataFrame or an expression, such as "
            f"'octet_length(text)'; got {size} ({first_line(error)}). "
            f"It has {', '.join(frame.columns)}"
        ) from None
    if isinstance(kind, StringType | BinaryType):
        raise PenstockError(
            f"size must be a number; {size} is {kind.simpleString()}. Write 'octet_length({size})'"
        )
    if isinstance(kind, ArrayType | MapType):
        raise PenstockError(
            f"size must be a number; {size} is {kind.simpleString()}. Write 'size({size})'"
        )
    if not isinstance(kind, NumericType):
        raise PenstockError(f"size must be a number; {size} is {kind.simpleString()}")
    return column.cast("double")


def names_of(keys: Keys) -> tuple[str, ...]:
    """Return the names of a key's columns, for messages."""
    return tuple(one if isinstance(one, str) else str(one) for one in keys)


def name_of(called: object, name: str | None) -> str:
    """Return the name of an operator: the user's choice, or the name of its function."""
    found = name or str(getattr(called, "__name__", type(called).__name__))
    cleaned = "".join(c if c.isalnum() or c in "-_." else "_" for c in found)
    if name is not None and cleaned != name:
        raise PenstockError(f"name must have letters, digits, '-', '_', '.' only; got {name!r}")
    return cleaned


def schema_of(schema: StructType | str) -> StructType:
    """Return a schema that is given as such, or as text."""
    if isinstance(schema, StructType):
        return schema
    if not isinstance(schema, str):
        raise PenstockError(f"schema must be a StructType or text; got {schema!r}")
    try:
        parsed = StructType.fromDDL(schema)
    except PySparkException as error:
        reason = first_line(error)
        raise PenstockError(f"schema cannot be read; got {schema!r} ({reason})") from None
    if not isinstance(parsed, StructType):
        raise PenstockError(f"schema must name columns, such as 'id long'; got {schema!r}")
    return parsed


def column_of(frame: DataFrame, given: str | Column) -> Column:
    """Return a column by its name, which may contain dots, or by the path to a nested field."""
    if isinstance(given, Column):
        return given
    if given not in frame.columns:
        return sf.col(given)
    quoted = given.replace("`", "``")
    return sf.col(f"`{quoted}`")


def hashed(frame: DataFrame, keys: Keys) -> Column:
    """Return the hash of the key, computed in the JVM, so that Python sees 64 bits only."""
    if not keys:
        return sf.lit(0).cast("long")
    columns = [column_of(frame, one) for one in keys]
    types = [field.dataType for field in _selected(frame, keys, columns)]
    # Spark cannot hash maps; it can hash their JSON.
    hashable = [
        sf.to_json(sf.struct(column)) if _has_map(kind) else column
        for column, kind in zip(columns, types, strict=True)
    ]
    return sf.xxhash64(*hashable)


def hashed_record(frame: DataFrame) -> Column:
    """Return the hash of a whole record; records of equal hashes are taken to be equal."""
    whole = sf.struct(sf.col("*"))
    return sf.xxhash64(sf.to_json(whole) if _has_map(frame.schema) else whole)


def key_columns(frame: DataFrame, keys: Keys) -> dict[str, Column]:
    """Return a key's columns by the names that they have in a result."""
    columns = [column_of(frame, one) for one in keys]
    fields = _selected(frame, keys, columns)
    for field in fields:
        if _has_map(field.dataType):
            raise PenstockError(
                f"key must not hold a map, which Spark cannot group by; got {field.name}"
            )
    named = {field.name: column for field, column in zip(fields, columns, strict=True)}
    if len(named) < len(columns):
        raise PenstockError(
            f"key must have columns of different names; got {', '.join(names_of(keys))}"
        )
    return named


def _selected(frame: DataFrame, keys: Keys, columns: list[Column]) -> list[StructField]:
    try:
        return frame.select(*columns).schema.fields
    except PySparkException:
        raise PenstockError(
            f"key must name columns of the DataFrame; got {', '.join(names_of(keys))}. "
            f"It has {', '.join(frame.columns)}"
        ) from None


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return True
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    element = getattr(kind, "elementType", None)
    return element is not None and _has_map(element)


def refuse_reserved(frame: DataFrame) -> None:
    """Refuse columns that the routing stage would overwrite."""
    taken = [name for name in frame.columns if name.startswith(RESERVED)]
    if taken:
        raise PenstockError(f"the DataFrame must not have a column {', '.join(taken)}; rename it")


def refuse_unpicklable(what: str, given: object) -> None:
    """Refuse a function or an object that cannot be sent to executors."""
    try:
        cloudpickle.dumps(given)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise PenstockError(
            f"{what} cannot be sent to executors ({type(error).__name__}: {error}). Open "
            "connections, files and locks inside the function or method, once for each worker"
        ) from None
