"""Columns that users name."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf


def column_of(frame: DataFrame, given: str | Column) -> Column:
    """Return a column by its name, which may have dots in it, or a field of one; or as it is."""
    if isinstance(given, Column):
        return given
    if given not in frame.columns:
        return sf.col(given)
    quoted = given.replace("`", "``")
    return sf.col(f"`{quoted}`")
