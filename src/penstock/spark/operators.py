"""What operators with a routing stage have in common."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, MapType, StructField, StructType

from penstock.control import Journal, OperatorStats, Policies
from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping, Proactive
from penstock.policies.validation import known, whole
from penstock.spark import internals
from penstock.spark.columns import column_of
from penstock.spark.driver import Driver
from penstock.spark.execution import ARRIVAL, INSTANCE, KEY
from penstock.spark.router import router
from penstock.spark.shedding import Shedding
from penstock.spark.spill import ADDED, BATCH, Spill, refuse_unwritable
from penstock.spark.tasks import OperatorSpec, shipped
from penstock.spark.watch import watch

Key = str | Column | Sequence[str | Column]

# The driver has more room than the paper's scheduler: keys whose costs are known, per instance.
_CAPACITY = 1_024
_RESERVED = "_penstock"
# One task keeps what is shed for so many instances.
_INSTANCES_PER_SPILL = 8


class Routed(NamedTuple):
    """A frame whose records have been decided about.

    Attributes:
        frame: with what was decided.
        spec: what tasks have to know of the operator.
        driver: what they report to.
        spill: where shed records are kept; None if they are not.
    """

    frame: DataFrame
    spec: OperatorSpec
    driver: Driver
    spill: Spill | None


class RoutedOperator(ABC):
    """An operator for `DataFrame.transform` whose records are routed by a grouping."""

    # Whether it only sheds, in front of operators that report nothing.
    in_front: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        key: Key,
        instances: int | None,
        grouping: str | Grouping,
        journal: Path | str | None,
        shedding: Shedding | None = None,
    ) -> None:
        self.name = name
        self.keys = _keys(key)
        self.identity = uuid.uuid4().hex
        self.journal = Journal(journal)
        if instances is not None:
            whole("instances", instances, least=1)
        self._make = _maker(grouping, instances)
        self._shedding = shedding
        self._driver: Driver | None = None
        self._closed = False

    @abstractmethod
    def __call__(self, frame: DataFrame) -> DataFrame:
        """Return the frame with the operator applied."""

    def _decide(
        self, spark: SparkSession, frame: DataFrame, keys: tuple[str | Column, ...]
    ) -> Routed:
        """Add to every record which instance it goes to, and -1 or one too many to shed it."""
        internals.protect_from_partial_retries(spark)
        shedding = self._shedding
        grouping = self._make(spark.sparkContext.defaultParallelism)
        shedder = shedding.shedder_for(grouping.instances) if shedding is not None else None
        policies = Policies(grouping, shedder)
        policies.warm_up()
        driver = self._driver = Driver.of(spark)
        spill = self._spill(frame)
        how = spill, self.in_front
        driver.register(spark, self.identity, self.name, policies, self.journal, *how)
        aside = spill is not None and not self.in_front
        spill_tasks = -(-grouping.instances // _INSTANCES_PER_SPILL) if aside else 0
        address = driver.server.address
        spec = OperatorSpec.of(self.identity, self.name, policies, address, spill_tasks)
        given = [_hash(frame, keys), *(shedding.columns(frame) if shedding is not None else ())]
        decided = frame.withColumn(INSTANCE, _udf(router(spec, driver.reports), len(given))(*given))
        if frame.isStreaming:  # others have no progress to show it in, and it takes time
            decided = decided.observe(f"penstock {self.name}", *_counts(grouping, shedding))
        return Routed(decided, spec, driver, spill)

    def _route(
        self, spark: SparkSession, frame: DataFrame, keys: tuple[str | Column, ...]
    ) -> Routed:
        """Send every record to its instance, with its columns named by their numbers.

        The hash of the key follows them and, if the operator sheds, the time of arrival.
        """
        decided, spec, driver, spill = self._decide(spark, frame, keys)
        if self._shedding is not None and not spec.spill:
            decided = decided.filter(sf.col(INSTANCE) >= 0)
        placed = decided.repartitionById(spec.instances + spec.spill, INSTANCE).drop(INSTANCE)
        # Hashed once more, as that is cheaper than to take the hash through the shuffle. Columns
        # go by number: mapInArrow does not take names with dots.
        more = {KEY: _hash(frame, keys)}
        if self._shedding is not None:
            more[ARRIVAL] = self._shedding.columns(frame)[0]
        numbers = map(str, range(len(frame.columns)))
        return Routed(placed.withColumns(more).toDF(*numbers, *more), spec, driver, spill)

    def _spill(self, frame: DataFrame) -> Spill | None:
        """Return where shed records are kept, if they are and can be."""
        if self._shedding is None or self._shedding.spill is None:
            return None
        added = *ADDED, BATCH
        taken = [name for name in frame.columns if name.lower() in added]
        if taken:
            raise PenstockError(
                f"spill adds columns {', '.join(added)}; rename {', '.join(taken)} of the DataFrame"
            )
        spark = frame.sparkSession.sparkContext
        refuse_unwritable(self._shedding.spill, local=str(spark.master).startswith("local"))
        return Spill(self._shedding.spill, frame.schema, self.name, spark.applicationId)

    @property
    def limit_ms(self) -> float | None:
        """How long records may wait; None if the operator does not look at that."""
        target = self._shedding.shedder.target if self._shedding is not None else None
        return target.limit_ms if target is not None else None

    @property
    def closed(self) -> bool:
        """Whether the operator has been used, and was let go of."""
        return self._closed

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
        self._closed = True
        if self._driver is not None:
            self._driver.unregister(self.identity)
            self._driver = None


def _keys(key: Key) -> tuple[str | Column, ...]:
    keys = (key,) if isinstance(key, str | Column) else tuple(key) if _several(key) else ()
    if not keys or not all(isinstance(one, str | Column) for one in keys):
        raise PenstockError(f"key must be a column or a list of columns; got {key!r}")
    return keys


def _several(key: object) -> bool:
    return isinstance(key, Sequence)


def names_of(keys: tuple[str | Column, ...]) -> tuple[str, ...]:
    """Return how a key's columns are called, for messages."""
    return tuple(one if isinstance(one, str) else str(one) for one in keys)


def name_of(given: object, name: str | None) -> str:
    """Return how an operator is called: as the user says, or as what it calls."""
    found = name or str(getattr(given, "__name__", type(given).__name__))
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
    known("grouping", grouping, Grouping.registered())
    more = {"capacity": _CAPACITY} if grouping == Proactive.name else {}
    Grouping.named(grouping, instances=instances or 1, **more)
    return lambda slots: Grouping.named(grouping, instances=instances or slots, **more)


def refuse_unpicklable(what: str, given: object) -> None:
    """Refuse what cannot be sent to executors."""
    try:
        cloudpickle.dumps(given)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise PenstockError(
            f"{what} cannot be sent to executors ({type(error).__name__}: {error}). Open "
            "connections, files and locks inside the function or method, once for each worker"
        ) from None


def schema_of(schema: StructType | str) -> StructType:
    """Read a schema."""
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
    columns = [column_of(frame, one) for one in keys]
    types = [field.dataType for field in _selected(frame, keys, columns)]
    # Maps cannot be hashed: their JSON can.
    hashable = [
        sf.to_json(sf.struct(column)) if _has_map(kind) else column
        for column, kind in zip(columns, types, strict=True)
    ]
    return sf.xxhash64(*hashable)


def key_columns(frame: DataFrame, keys: tuple[str | Column, ...]) -> dict[str, Column]:
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


def _selected(
    frame: DataFrame, keys: tuple[str | Column, ...], columns: list[Column]
) -> list[StructField]:
    try:
        return frame.select(*columns).schema.fields
    except PySparkException:
        raise PenstockError(
            f"key must name columns of the DataFrame; got {', '.join(names_of(keys))}. "
            f"It has {', '.join(frame.columns)}"
        ) from None


def refuse_reserved(frame: DataFrame) -> None:
    """Refuse columns that the routing stage would overwrite."""
    taken = [name for name in frame.columns if name.startswith(_RESERVED)]
    if taken:
        raise PenstockError(f"the DataFrame must not have a column {', '.join(taken)}; rename it")


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return True
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    element = getattr(kind, "elementType", None)
    return element is not None and _has_map(element)


def _counts(grouping: Grouping, shedding: Shedding | None) -> list[Column]:
    """What the query's progress shows of an operator."""
    counts = [sf.count(sf.lit(1)).alias("received")]
    if shedding is not None:
        instance = sf.col(INSTANCE)
        shed = (instance < 0) | (instance >= grouping.instances)
        counts.append(sf.count_if(shed).alias("shed"))
        counts.append(sf.count_if(~shed).alias("admitted"))
    return counts


def _udf(route: Callable[[Any], Iterator[pa.Array]], columns: int) -> Callable[..., Column]:
    function = shipped(route)
    # Spark reads the kind of a function from its annotations.
    taken: Any = Iterator[pa.Array] if columns == 1 else Iterator[tuple[pa.Array, ...]]
    function.__annotations__ = {"batches": taken, "return": Iterator[pa.Array]}
    udf: Any = sf.arrow_udf(function, "int")  # type: ignore[attr-defined]
    # Evaluated once: it counts what it routes.
    return cast(Callable[..., Column], udf.asNondeterministic())
