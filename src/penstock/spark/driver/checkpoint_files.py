"""The files that an operator keeps next to the checkpoint of its query."""

import logging
import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

from penstock.control import Controller
from penstock.errors import PenstockError, first_line
from penstock.spark import internals
from penstock.spark.internals import JvmError
from penstock.spark.spill import Spill

log = logging.getLogger("penstock")

SNAPSHOT, PIN = "snapshot", "batch"
_CONSEQUENCE = {
    SNAPSHOT: "costs are learnt again",
    PIN: "its batch is decided about again",
}


class CheckpointFiles:
    """Reads and writes the files of operators, one at a time.

    An operator has two files in the folder `penstock` of a checkpoint: its learnt costs, and the
    snapshot of the batch that runs. Controllers write the second one while they hold their own
    lock, so nothing here calls a controller that takes its lock while `_lock` is held.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checkpoints: dict[str, str] = {}

    def path(self, spark: SparkSession, controller: Controller, kind: str) -> str | None:
        """Return the path of a file; None for a query without a known checkpoint.

        The checkpoint is found while the query runs, and remembered.
        """
        query = controller.query
        if query and query not in self._checkpoints:
            found = internals.checkpoint_of(spark, query)
            if found:
                self._checkpoints[query] = found
        checkpoint = self._checkpoints.get(query)
        return f"{checkpoint}/penstock/{controller.name}.{kind}" if checkpoint else None

    def load(
        self,
        spark: SparkSession,
        controller: Controller,
        kind: str,
        *,
        into: Callable[[bytes], None],
    ) -> None:
        """Load a file of an earlier run of the same query; log a file that cannot be used."""
        path = self.path(spark, controller, kind)
        if path is None:
            return
        try:
            with self._lock:
                data = internals.read_file(spark, path)
            if data is not None:
                into(data)
        except (PenstockError, JvmError) as error:
            log.warning(
                "%s: %s cannot be used, so %s (%s)",
                controller.name,
                path,
                _CONSEQUENCE[kind],
                first_line(error),
            )

    def save(self, spark: SparkSession, controller: Controller) -> None:
        """Save the learnt costs of an operator; log a failure, and try again later."""
        path = self.path(spark, controller, SNAPSHOT)
        if path is None:
            return
        controller.unsaved = False
        learnt = controller.save()
        try:
            self.write(spark, path, learnt)
        except Exception as error:
            controller.unsaved = True
            log.warning(
                "%s: costs cannot be saved at %s (%s)", controller.name, path, first_line(error)
            )

    def write(self, spark: SparkSession, path: str, data: bytes) -> None:
        """Write a file whole or not at all."""
        with self._lock:
            internals.write_file(spark, path, data)

    def clean_spill(self, spark: SparkSession, controller: Controller, spill: Spill) -> None:
        """Remove the spilled files of a batch that will run again: its files may differ."""
        checkpoint = self._checkpoints.get(controller.query)
        if checkpoint is None:
            return
        try:
            with self._lock:
                batch = internals.unfinished_batch(spark, checkpoint)
            if batch is not None:
                spill.remove(controller.query, batch)
        except (OSError, JvmError) as error:
            controller.warn("clean", f"old spilled files cannot be removed: {first_line(error)}")
