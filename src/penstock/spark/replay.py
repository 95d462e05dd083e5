"""`penstock.replay`: shed or failed records are processed later."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from penstock.errors import PenstockError
from penstock.policies.validation import seconds
from penstock.spark import internals
from penstock.spark.arguments import schema_of
from penstock.spark.driver.releaser import MOST_FILES, READY, Releaser, release_all, spilled_files
from penstock.spark.paths import absolute, path_of_spark
from penstock.spark.routed import RoutedOperator
from penstock.spark.spill import ADDED, ERROR_ADDED, file_system

_SHORTEST_S = 0.05


def replay(
    spark: SparkSession,
    path: str,
    *,
    when: RoutedOperator | None = None,
    arrival: str | None = None,
    schema: StructType | str | None = None,
    every: float | str = "1 s",
) -> DataFrame:
    """Return shed or failed records as a stream, to be processed when the operator has slack.

    Files of committed batches are moved to a second folder, whose name ends in "-replay": one at
    first, and twice as many after every second move, while there is slack. Spark reads that folder
    like any stream of files: each file once, also after a restart. It deletes a file when the batch
    that has read it is committed, so use the stream in one query only. An operator has slack if it
    has shed nothing in its newest batch, and records have waited at most half of the target. It
    also has slack if its query has no work for a while. Union the stream with the live one, or
    write it in a query of its own.

    Args:
        spark: session to read with.
        path: folder that an operator spills to, or keeps failed records in.
        when: operator that must have slack; None moves everything at once, for queries that have
            ended. Files of a batch that was not committed stay: the restarted query decides about
            that batch again. The newest call for a folder counts.
        arrival: timestamp column that is set to the time of the replay, so that records are not
            shed again for their age; None leaves it unchanged. It must not be the column of the
            watermark, or records would count for the time of their replay.
        schema: schema of the records, such as `events.schema`; needed if nothing has been spilled
            yet.
        every: time between two looks at the operator, such as "1 s"; a number is in milliseconds.

    Example:
        >>> late = replay(
        ...     spark, "spill", when=op, arrival="arrived", schema=events.schema
        ... )  # doctest: +SKIP
        >>> query = events.unionByName(late).transform(op).writeStream...  # doctest: +SKIP
    """
    every_s = seconds("every", every, least=_SHORTEST_S)
    path = absolute(path)
    files, root = file_system(path)
    files.create_dir(root + READY, recursive=True)
    fields = _known_schema(spark, path) if schema is None else schema_of(schema)
    _refuse_event_time(arrival, fields)
    # The releaser decides how many files a batch reads; without it there may be any number.
    most = 1 if when is None else MOST_FILES
    reader = spark.readStream.schema(fields).option("maxFilesPerTrigger", most)
    reader = reader.option("cleanSource", "delete")
    frame = reader.parquet(path_of_spark(path + READY)).drop(*ADDED, *ERROR_ADDED)
    if arrival is not None and arrival not in frame.columns:
        raise PenstockError(
            f"arrival must be a column of the spilled records; got {arrival!r}. They have "
            f"{', '.join(frame.columns)}"
        )
    if when is None:
        release_all(spark, path)
    else:
        Releaser(
            spark,
            path,
            lambda: None if when.closed else when.all_stats(),
            limit_ms=when.limit_ms,
            every_s=every_s,
        ).start()
    if arrival is None:
        return frame
    return frame.withColumn(arrival, sf.current_timestamp().cast(frame.schema[arrival].dataType))


def _refuse_event_time(arrival: str | None, schema: StructType) -> None:
    marked = [field.name for field in schema.fields if internals.is_event_time(field)]
    if arrival in marked:
        raise PenstockError(
            f"arrival must not be the column of the watermark; got {arrival!r}: records would "
            "count for the time of their replay. Let the operator shed by a copy, such as "
            f"events.withColumn('arrived', '{arrival}'), and give that as arrival"
        )


def _known_schema(spark: SparkSession, path: str) -> StructType:
    files, root = file_system(path)
    known = [*spilled_files(files, root), *spilled_files(files, root + READY)]
    if not known:
        raise PenstockError(
            f"path: {path!r} has no spilled records yet, so give their schema, such as "
            "schema=events.schema"
        )
    return spark.read.parquet(path_of_spark(path.removesuffix(root) + known[0])).schema
