"""The engine of real time: the only package that speaks to Spark."""

from pyspark import __version__ as _spark_version

from penstock.spark.environment import refuse_old_spark

refuse_old_spark(_spark_version)

from penstock.spark.aggregate import Aggregation, aggregate  # noqa: E402 - fails on an old Spark
from penstock.spark.attach import attach, detach  # noqa: E402
from penstock.spark.attachment import Attachment, AttachStats, placed  # noqa: E402
from penstock.spark.balance import Operator, balance  # noqa: E402 - fails on an old Spark
from penstock.spark.replay import replay  # noqa: E402
from penstock.spark.session import session  # noqa: E402
from penstock.spark.shed import Gatekeeper, shed  # noqa: E402

__all__ = [
    "Aggregation",
    "AttachStats",
    "Attachment",
    "Gatekeeper",
    "Operator",
    "aggregate",
    "attach",
    "balance",
    "detach",
    "placed",
    "replay",
    "session",
    "shed",
]
