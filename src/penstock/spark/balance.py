"""`penstock.balance`: an operator whose records go to tasks by what they cost."""

import inspect
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast, get_type_hints

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, MapType, StructType

from penstock.control import Journal, OperatorStats
from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping, Proactive
from penstock.policies.validation import known, whole
from penstock.spark import internals
from penstock.spark.driver import Driver
from penstock.spark.execution import INSTANCE, KEY, Form, Work, operator, try_example
from penstock.spark.router import router
from penstock.spark.tasks import OperatorSpec, shipped
from penstock.spark.watch import watch

Key = str | Column | Sequence[str | Column]

# The driver has more room than the paper's scheduler: keys whose costs are known, per instance.
_CAPACITY = 1_024


def balance(
    func: Callable[..., Any],
    *,
    key: Key,
    schema: StructType | str,
    instances: int | None = None,
    grouping: str | Grouping = "posg",
    form: Form | None = None,
    name: str | None = None,
    journal: Path | str | None = None,
    example: dict[str, Any] | None = None,
) -> "Operator":
    """Return an operator for `DataFrame.transform` that calls `func` for every record.

    Which task gets which record is decided by what records of the same key have cost. It works on
    streaming and on batch DataFrames; the result is an ordinary DataFrame.

    Args:
        func: takes a record and returns a record, None, or an iterable of records. A record is a
            dict; if the parameter's annotation is `pyspark.sql.Row`, a Row; if it is
            `pyarrow.RecordBatch`, the function takes and returns whole batches (or an iterable
            of them). The cost of a batch is then shared equally by its records, so that batches
            tell less about keys: prefer single records where one takes a millisecond or more.
        key: column (or columns, or expressions) that drives the cost. Any type; null is a key.
        schema: of what `func` returns.
        instances: tasks that share the work; by default as many as the cluster has slots.
        grouping: registered name, or a policy object (its own `instances` then counts).
        form: "dict", "row" or "arrow", if the annotations do not tell.
        name: of the operator in stats, journal and checkpoint; unique in a query. By default the
            function's name.
        journal: file for observations and plans (JSON lines, rotated).
        example: a record to try the function with now, so that a result that does not fit the
            schema is found before the query starts.

    Example:
        >>> def enrich(record):
        ...     return {"entity": record["entity"], "score": 0.5}
        >>> op = balance(enrich, key="entity", schema="entity string, score double", instances=8)
        >>> op.name, op.form
        ('enrich', 'dict')
    """
    return Operator(func, key, schema, instances, grouping, form, name, journal, example)


class Operator:
    """A balanced operator: made by `penstock.balance`, used by `DataFrame.transform`."""

    def __init__(
        self,
        func: Callable[..., Any],
        key: Key,
        schema: StructType | str,
        instances: int | None,
        grouping: str | Grouping,
        form: Form | None,
        name: str | None,
        journal: Path | str | None,
        example: dict[str, Any] | None,
    ) -> None:
        if not callable(func):
            raise PenstockError(f"func must be a function; got {func!r}")
        self.func = func
        self.keys = _keys(key)
        self.form = _form(func, form)
        self.name = _name(func, name)
        self.identity = uuid.uuid4().hex
        self.journal = Journal(journal)
        self._schema = schema
        if instances is not None:
            whole("instances", instances, least=1)
        self._make = _maker(grouping, instances)
        self._example = example
        self._driver: Driver | None = None
        _refuse_unpicklable(self.name, func)

    def __call__(self, frame: DataFrame) -> DataFrame:
        """Return the frame with `func` applied to every record."""
        spark = internals.supported_session(frame)
        _refuse_reserved(frame)
        returned = _schema(self._schema)
        keyed = frame.withColumn(KEY, _hash(frame, self.keys))
        work = Work(self.func, self.form, _names(self.keys), frame.schema, returned)
        self._try(work)
        internals.protect_from_partial_retries(spark)
        grouping = self._make(spark.sparkContext.defaultParallelism)
        grouping.warm_up()
        driver = self._driver = Driver.of(spark)
        driver.register(spark, self.identity, self.name, grouping, self.journal)
        made = type(grouping), grouping.params()
        spec = OperatorSpec(self.identity, self.name, *made, driver.server.address)
        routed = keyed.withColumn(INSTANCE, _udf(router(spec, driver.reports))(KEY))
        routed = routed.observe(f"penstock {self.name}", sf.count(sf.lit(1)).alias("received"))
        # Columns go by number: mapInArrow does not take names with dots.
        numbered = routed.toDF(*map(str, range(len(frame.columns))), KEY, INSTANCE)
        shared = numbered.repartitionById(grouping.instances, INSTANCE)
        return shared.mapInArrow(shipped(operator(spec, work, driver.reports)), returned)

    def stats(self) -> OperatorStats:
        """Return what the operator has done in its newest query."""
        found = self.all_stats()
        if not found:
            raise PenstockError(f"operator {self.name!r} has not run yet; start its query first")
        return found[-1]

    def all_stats(self) -> list[OperatorStats]:
        """Return what the operator has done, for each query it was used in."""
        if self._driver is None:
            return []
        self._driver.flush()
        return [c.stats() for c in self._driver.controllers(self.identity)]

    def watch(self, seconds: float | None = None) -> None:
        """Show the stats in the terminal until Ctrl-C, or for some seconds."""
        watch(self.all_stats, seconds)

    def close(self) -> None:
        """Save what was learnt, and forget the operator; its queries must have ended."""
        if self._driver is not None:
            self._driver.unregister(self.identity)
            self._driver = None

    def _try(self, work: Work) -> None:
        """Call the function with the example, if there is one."""
        if self._example is not None:
            try_example(self.name, work, self._example)


def _keys(key: Key) -> tuple[str | Column, ...]:
    keys = (key,) if isinstance(key, str | Column) else tuple(key) if _several(key) else ()
    if not keys or not all(isinstance(one, str | Column) for one in keys):
        raise PenstockError(f"key must be a column or a list of columns; got {key!r}")
    return keys


def _several(key: object) -> bool:
    return isinstance(key, Sequence)


def _names(keys: tuple[str | Column, ...]) -> tuple[str, ...]:
    return tuple(one if isinstance(one, str) else str(one) for one in keys)


def _form(func: Callable[..., Any], form: Form | None) -> Form:
    if form is not None:
        known("form", form, ("dict", "row", "arrow"))
        return form
    try:
        hints = get_type_hints(func)
        first = next(iter(inspect.signature(func).parameters))
    except (TypeError, ValueError, NameError, StopIteration):
        return "dict"
    taken = hints.get(first)
    return "arrow" if taken is pa.RecordBatch else "row" if taken is Row else "dict"


def _name(func: Callable[..., Any], name: str | None) -> str:
    found = name or str(getattr(func, "__name__", type(func).__name__))
    cleaned = "".join(c if c.isalnum() or c in "-_." else "_" for c in found)
    if name is not None and cleaned != name:
        raise PenstockError(f"name must be of letters, digits, '-', '_', '.'; got {name!r}")
    return cleaned


def _maker(grouping: str | Grouping, instances: int | None) -> Callable[[int], Grouping]:
    """Return what makes the policy, once the number of slots is known."""
    if isinstance(grouping, Grouping):
        if instances is not None and instances != grouping.instances:
            raise PenstockError(
                f"instances must be that of the grouping ({grouping.instances}) or left out; "
                f"got {instances}"
            )
        return lambda _: grouping
    known("grouping", grouping, Grouping.registered(Grouping))
    more = {"capacity": _CAPACITY} if grouping == Proactive.name else {}
    Grouping.named(grouping, instances=instances or 1, **more)
    return lambda slots: Grouping.named(grouping, instances=instances or slots, **more)


def _refuse_unpicklable(name: str, func: Callable[..., Any]) -> None:
    try:
        cloudpickle.dumps(func)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise PenstockError(
            f"func {name!r} cannot be sent to executors ({type(error).__name__}: {error}). Open "
            "connections, files and locks inside the function, once for each Python worker"
        ) from None


def _schema(schema: StructType | str) -> StructType:
    if isinstance(schema, StructType):
        return schema
    if not isinstance(schema, str):
        raise PenstockError(f"schema must be a StructType or text; got {schema!r}")
    try:
        parsed = StructType.fromDDL(schema)
    except PySparkException as error:
        first_line = str(error).strip().splitlines()[0]
        raise PenstockError(f"schema cannot be read; got {schema!r} ({first_line})") from None
    if not isinstance(parsed, StructType):
        raise PenstockError(f"schema must name columns, as 'id long'; got {schema!r}")
    return parsed


def _hash(frame: DataFrame, keys: tuple[str | Column, ...]) -> Column:
    """Hash the key in the JVM, whatever its type, so that Python sees 64 bits only."""
    columns = [_column(frame, one) for one in keys]
    try:
        types = [field.dataType for field in frame.select(*columns).schema.fields]
    except PySparkException:
        names = ", ".join(_names(keys))
        raise PenstockError(
            f"key must name columns of the DataFrame; got {names}. "
            f"It has {', '.join(frame.columns)}"
        ) from None
    # Maps cannot be hashed: their JSON can.
    hashable = [
        sf.to_json(sf.struct(column)) if _has_map(kind) else column
        for column, kind in zip(columns, types, strict=True)
    ]
    return sf.xxhash64(*hashable)


def _refuse_reserved(frame: DataFrame) -> None:
    taken = {KEY, INSTANCE} & set(frame.columns)
    if taken:
        raise PenstockError(
            f"the DataFrame must not have a column {', '.join(sorted(taken))}; rename it"
        )


def _column(frame: DataFrame, key: str | Column) -> Column:
    if isinstance(key, Column):
        return key
    if key not in frame.columns:
        return sf.col(key)
    quoted = key.replace("`", "``")
    return sf.col(f"`{quoted}`")


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return True
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    element = getattr(kind, "elementType", None)
    return element is not None and _has_map(element)


def _udf(route: Callable[[Iterator[pa.Array]], Iterator[pa.Array]]) -> Callable[..., Column]:
    function = shipped(route)
    # Spark reads the kind of a function from its annotations.
    function.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
    udf: Any = sf.arrow_udf(function, "int")  # type: ignore[attr-defined]
    # Evaluated once: it counts what it routes.
    return cast(Callable[..., Column], udf.asNondeterministic())
