"""Facts about a frame's records from its plan: their identity, their order, their watermark."""

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType

# Steps that keep the order of records, and sources that return them in the same order each time.
# Any other step counts as one that does not.
_IN_ORDER = frozenset(
    {
        "CollectMetrics",
        "DataSourceV2Relation",
        "EventTimeWatermark",
        "Expand",
        "Filter",
        "Generate",
        "LocalRelation",
        "LogicalRelation",
        "MapInArrow",
        "MapInPandas",
        "Project",
        "Range",
        "StreamingExecutionRelation",
        "StreamingRelation",
        "StreamingRelationV2",
        "SubqueryAlias",
        "Union",
        "View",
    }
)
_REPARTITION = "Repartition"


def identity_of(frame: DataFrame) -> str:
    """Return a short text that is equal for equal frames of this process, and for no others."""
    return f"{frame.semanticHash() & 0xFFFF_FFFF:08x}"


def has_stable_order(frame: DataFrame) -> bool:
    """Whether each partition of a frame has the same records in the same order each time.

    A shuffle delivers its records in another order when it is read again.
    """
    return _keeps_order(_plan(frame))


def is_deterministic(frame: DataFrame) -> bool:
    """Whether a frame's records are the same each time: no random numbers, no unique ids."""
    return bool(_plan(frame).deterministic())


def _plan(frame: DataFrame) -> Any:  # noqa: ANN401 - a py4j object
    return frame._jdf.queryExecution().analyzed()


def _keeps_order(node: Any) -> bool:  # noqa: ANN401 - a py4j object
    name = str(node.getClass().getSimpleName())
    if name not in _IN_ORDER and not (name == _REPARTITION and not node.shuffle()):
        return False
    children = node.children()
    return all(_keeps_order(children.apply(i)) for i in range(children.size()))


_WATERMARK = "spark.watermarkDelayMs"


def is_event_time(field: StructField) -> bool:
    """Whether a column carries a watermark."""
    return _WATERMARK in field.metadata


def as_event_time(column: Column, name: str) -> Column:
    """Mark a column as the one that carries the query's watermark.

    Python stages lose the mark, and Spark refuses a second definition of the watermark.
    """
    return column.alias(name, metadata={_WATERMARK: 0})


def with_watermark_of(given: StructType, returned: StructType) -> tuple[StructType, list[str]]:
    """Return a schema whose columns carry the watermark of the same columns of another schema.

    Args:
        given: schema with watermarks.
        returned: schema without them. A column is the same if its name and type are.

    Returns:
        The schema, and the names of columns with a watermark that it does not have.
    """
    marked = {one.name: one for one in given.fields if is_event_time(one)}
    fields = []
    for field in returned.fields:
        known = marked.get(field.name)
        metadata = dict(field.metadata)
        if known is not None and known.dataType == field.dataType:
            metadata[_WATERMARK] = known.metadata[_WATERMARK]
            del marked[field.name]
        fields.append(StructField(field.name, field.dataType, field.nullable, metadata))
    return StructType(fields), list(marked)
