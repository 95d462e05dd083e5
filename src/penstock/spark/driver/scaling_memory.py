"""Keeps what scaling has learnt about a query next to its checkpoint."""

import logging

from pyspark.sql import SparkSession

from penstock.control import Timeline
from penstock.control.fixed_costs import RecordTime
from penstock.control.saved_scaling import SavedScaling, read_scaling, scaling_bytes
from penstock.errors import first_line
from penstock.spark import internals
from penstock.spark.driver.checkpoint_files import SCALING, CheckpointFiles
from penstock.spark.internals import JvmError

log = logging.getLogger("penstock")


class ScalingMemory:
    """Files of rates and costs that outlive the driver.

    A query writes at least two files of its own for each batch. One more in each period adds
    little, also on an object store.

    Args:
        spark: session of the query.
        query: identity of the query.
        name: name of the query, for people.
    """

    def __init__(self, spark: SparkSession, query: str, name: str) -> None:
        self._spark = spark
        self._name = name
        self._files = CheckpointFiles()
        checkpoint = internals.checkpoint_of(spark, query)
        # Names of operators have no such mark.
        self._stem = f"{checkpoint}/penstock/@query.{SCALING}" if checkpoint else None
        self._failed = False

    def load(self, timeline: Timeline, rest: RecordTime) -> SavedScaling | None:
        """Restore what an earlier run has learnt; return None if there is nothing."""
        found: list[SavedScaling] = []
        if self._stem is not None:
            self._files.load_from(
                self._spark,
                self._stem,
                name=self._name,
                into=lambda data: found.append(read_scaling(data, timeline, rest)),
            )
        return found[0] if found else None

    def save(self, timeline: Timeline, rest: RecordTime, known: SavedScaling) -> None:
        """Write everything learnt; log the first failure."""
        if self._stem is None:
            return
        try:
            self._files.write(self._spark, self._stem, scaling_bytes(timeline, rest, known))
        except JvmError as error:
            if not self._failed:
                log.warning(
                    "%s: rates and costs cannot be saved at %s (%s)",
                    self._name,
                    self._stem,
                    first_line(error),
                )
            self._failed = True
