"""`penstock.diagnose`: what is slow in the application of a session, and why."""

import json
from typing import TYPE_CHECKING

from penstock.diagnosis import Diagnosis
from penstock.diagnosis import diagnose as diagnosed
from penstock.diagnosis.log import LogReader
from penstock.diagnosis.rest import read_application
from penstock.errors import PenstockError, first_line
from penstock.spark import internals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"


def diagnose(spark: "SparkSession", only: int | None = None) -> Diagnosis:
    """Diagnose the application of a session: what is slow, why, and which cures would help.

    It reads what Spark itself keeps of jobs, stages and tasks, also without its pages. Spark
    forgets old stages (`spark.ui.retainedStages`, `spark.ui.retainedTasks`), and the progress of
    queries that have ended. An event log has all of it; see `penstock diagnose`.

    Args:
        spark: session whose application is diagnosed.
        only: largest number of queries; None for all of them.

    Returns:
        The diagnosis: `queries` have `main_cause`, `causes` and `cures`, and `document()` returns
        all of it for a JSON file.

    Example:
        >>> found = diagnose(spark)  # doctest: +SKIP
        >>> found.queries[0].main_cause  # doctest: +SKIP
        <Cause.UNEVEN_COSTS: 'uneven_costs'>
    """
    spark = internals.checked_session(spark)
    try:
        log = read_application(
            lambda path: internals.application_status(spark, path),
            name=str(spark.sparkContext.appName),
            version=spark.version,
            lacking="Spark forgets old stages, and progress of queries that have ended; an event "
            "log has all of them.",
        )
        for (number, _), stage in log.stages.items():
            stage.steps = internals.steps_of(spark, number)
        progress = internals.recent_progress(spark)
    except internals.JvmError as error:
        raise PenstockError(
            f"the status of the application cannot be read ({first_line(error)})"
        ) from None
    reader = LogReader()
    for one in progress:
        reader.add(json.dumps({"Event": _PROGRESS, "progress": one}).encode())
    log.progress = reader.log.progress
    return diagnosed(log, only)
