"""Trials of Spark for `penstock doctor`."""

import pyspark

from penstock.errors import PenstockError, first_line
from penstock.spark.environment import refuse_old_spark
from penstock.spark.lab.bulk import compute
from penstock.spark.lab.sessions import session


def spark_version() -> str:
    """Return PySpark's version; refuse one that cannot route records."""
    refuse_old_spark(pyspark.__version__)
    return str(pyspark.__version__)


def try_session() -> str:
    """Start a local session and let a Python worker compute something."""
    spark = session("local[1]", "penstock-doctor")
    try:
        squares = compute(spark, lambda n: str(n * n), [1, 2, 3])
    except Exception as error:
        raise PenstockError(
            f"a local Spark starts, but its Python workers fail: {first_line(error)}. Set "
            "PYSPARK_PYTHON to the Python that Penstock is installed in"
        ) from error
    finally:
        spark.stop()
    if squares != ["1", "4", "9"]:
        raise PenstockError(f"a local Spark computes wrong squares: {squares}")
    return "a local Spark runs Python workers"
