"""Bytes that the tasks of a shuffle sent to each other."""

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from penstock.spark.internals.jvm import java

# Largest share by which the sizes of a shuffle may differ from its tasks' metrics: Spark rounds.
_FITS = 0.25
# Number of the newest shuffles that are compared.
_SHUFFLES = 24
# Spark stores a size as a power of this base.
_BASE = 1.1


def shuffled_bytes(
    spark: SparkSession, written: Sequence[float], read: Sequence[float]
) -> list[list[float]]:
    """Return the bytes that each map task of a recent shuffle sent to each reduce task.

    The result is the best-fitting shuffle of that shape; empty if none fits.

    Args:
        spark: session of the application.
        written: bytes that each map task has written.
        read: bytes that each reduce task has read; a join reads other shuffles, too.
    """
    jvm = java(spark)
    environment = jvm.java.lang.Class.forName("org.apache.spark.SparkEnv")
    field = environment.getDeclaredField("mapOutputTracker")
    field.setAccessible(True)
    statuses = field.get(spark.sparkContext._jsc.sc().env()).shuffleStatuses()
    numbers = [int(one) for one in str(statuses.keys().mkString(",")).split(",") if one]
    found = []
    for number in sorted(numbers, reverse=True)[:_SHUFFLES]:
        status = statuses.get(number)
        if status.isEmpty():
            continue  # Spark has just removed it
        statuses_of = status.get().mapStatuses()
        sizes = _sizes(jvm, statuses_of) if len(statuses_of) == len(written) else []
        if len(sizes) == len(written) and all(len(one) == len(read) for one in sizes):
            found.append(sizes)
    return best_fit(found, written, read)


def best_fit(
    shuffles: list[list[list[float]]], written: Sequence[float], read: Sequence[float]
) -> list[list[float]]:
    """Return the shuffle whose sums of rows and columns are nearest to the tasks' metrics.

    The total is not enough: operators that pass their records on all send nearly the same. The
    result is empty if not even the rows fit.

    Example:
        >>> alike = [[[9.0, 1], [1, 9]], [[5.0, 5], [9, 1]]]
        >>> best_fit(alike, written=[10, 10], read=[14, 6])
        [[5.0, 5], [9, 1]]
        >>> best_fit(alike, written=[20, 0], read=[10, 10])
        []
    """

    def off(sums: Iterable[float], measured: Sequence[float]) -> float:
        return sum(abs(size - one) for size, one in zip(sums, measured, strict=True))

    def misfit(sizes: list[list[float]]) -> float:
        return off(map(sum, sizes), written) + off(map(sum, zip(*sizes, strict=True)), read)

    best = min(shuffles, key=misfit, default=[])
    fits = best and off(map(sum, best), written) <= _FITS * sum(written)
    return best if fits else []


def _sizes(jvm: Any, statuses: Any) -> list[list[float]]:  # noqa: ANN401 - a py4j object
    """Return the sizes that Spark keeps as bytes: 1.1 to the power of the byte, 0 for nothing."""
    kind = jvm.java.lang.Class.forName("org.apache.spark.scheduler.CompressedMapStatus")
    field = kind.getDeclaredField("compressedSizes")
    field.setAccessible(True)
    return [
        [_BASE**packed if packed else 0.0 for packed in bytes(field.get(one))]
        for one in statuses
        if one is not None and kind.isInstance(one)
    ]
