"""Everything that Penstock knows about an application now: operators, queries, attachments."""

import logging
from dataclasses import dataclass

from pyspark.sql import SparkSession

from penstock.control import OperatorStats
from penstock.errors import first_line
from penstock.spark.driver.attachment import Attachment, AttachStats
from penstock.spark.driver.control_plane import ControlPlane
from penstock.spark.driver.queries import QueryState

log = logging.getLogger("penstock")


@dataclass(frozen=True)
class Overview:
    """An application at one moment.

    Attributes:
        operators: stats of each operator in each query, one for each pair of names.
        queries: queries that use operators, one for each name.
        attached: stats of attachments, one for each query.
    """

    operators: tuple[OperatorStats, ...]
    queries: tuple[QueryState, ...]
    attached: tuple[AttachStats, ...]


def overview(spark: SparkSession) -> Overview:
    """Look at an application.

    Of several operators or queries with the same names the newest one counts: names are labels, and
    people know no others. Reports that are still in the inbox are not waited for.

    Args:
        spark: any session of the application.
    """
    operators: dict[tuple[str, str], OperatorStats] = {}
    queries: dict[str, QueryState] = {}
    plane = ControlPlane.running(spark)
    if plane is not None:
        for controller in plane.controllers():
            stats = controller.stats()
            operators[stats.name, stats.query_name] = stats
        queries = {one.name: one for one in plane.queries.states()}
    attached = {one.query: one for one in map(stats_of, Attachment.all()) if one is not None}
    return Overview(tuple(operators.values()), tuple(queries.values()), tuple(attached.values()))


def stats_of(attachment: Attachment) -> AttachStats | None:
    """Return the stats of an attachment; None if its application stops."""
    try:
        return attachment.stats()
    except Exception as error:
        # An application that stops meanwhile has no executors any more.
        log.debug("the stats of %s are unknown: %s", attachment.query, first_line(error))
        return None
