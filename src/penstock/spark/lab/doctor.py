"""What the doctor asks of Spark."""

import pyspark

from penstock.errors import PenstockError
from penstock.spark.environment import refuse_old_spark
from penstock.spark.lab.bulk import compute
from penstock.spark.lab.sessions import session


def spark_version() -> str:
    """Return PySpark's version, or say how to get one that can route records."""
    refuse_old_spark(pyspark.__version__)
    return str(pyspark.__version__)


def try_session() -> str:
    """Start a local session and let a Python worker compute something."""
    spark = session("local[1]", "penstock-doctor")
    try:
        squares = compute(spark, lambda n: str(n * n), [1, 2, 3])
    except Exception as error:
        first_line = str(error).strip().splitlines()[0]
        raise PenstockError(
            f"a local Spark starts, but its Python workers fail: {first_line}. Set PYSPARK_PYTHON "
            "to the Python that Penstock is installed in"
        ) from error
    finally:
        spark.stop()
    if squares != ["1", "4", "9"]:
        raise PenstockError(f"a local Spark computes wrong squares: {squares}")
    return "a local Spark runs Python workers"
