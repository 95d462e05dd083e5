"""Folders of shed and of failed records: checked before a query starts."""

from pyspark.sql import DataFrame

from penstock.errors import PenstockError
from penstock.spark import internals
from penstock.spark.spill import (
    ADDED,
    BATCH,
    ERROR_ADDED,
    Spill,
    refuse_unshared,
    refuse_unwritable,
)


def spill_folder(frame: DataFrame, path: str | None, *, operator: str) -> Spill | None:
    """Return the folder of shed records, or refuse one that cannot be used.

    Args:
        frame: frame that the operator is applied to.
        path: the user's folder; None if there is none.
        operator: name of the operator.
    """
    return _folder(frame, path, operator, argument="spill", added=ADDED)


def errors_folder(frame: DataFrame, path: str | None, *, operator: str) -> Spill | None:
    """Return the folder of failed records, or refuse one; arguments as for `spill_folder`."""
    return _folder(frame, path, operator, argument="errors", added=ERROR_ADDED)


def _folder(
    frame: DataFrame, path: str | None, operator: str, *, argument: str, added: tuple[str, ...]
) -> Spill | None:
    if path is None:
        return None
    added = *added, BATCH
    taken = [name for name in frame.columns if name.lower() in added]
    if taken:
        raise PenstockError(
            f"{argument} adds columns {', '.join(added)}; rename {', '.join(taken)} of the "
            "DataFrame"
        )
    spark = frame.sparkSession
    refuse_unshared(path, internals.hosts(spark), argument=argument)
    refuse_unwritable(path, argument=argument)
    return Spill(path, frame.schema, operator, spark.sparkContext.applicationId)
