"""A daemon of Python workers that has imported everything before it forks the first one.

Spark starts one daemon for each executor, and the daemon forks a Python worker for each task that
runs at the same time. Spark's own daemon imports nothing, so every worker imports NumPy, Numba,
pandas, PyArrow and Penstock again, which takes about a second of CPU. This daemon imports them
once, and a worker starts in the time of a fork. It is a setting of the application:

    spark.python.daemon.module=penstock.spark.executor.daemon

Spark imports after the fork because imports can start threads, which a fork does not copy. Of
these modules NumPy (OpenBLAS) and PyArrow (jemalloc) start one each. Both libraries restore
themselves in the child, because programs with `multiprocessing` rely on it.
"""

import gc
import os

from pyspark.daemon import manager

# Modules that tasks of all verbs need, beside those that these import.
_MODULES = (
    "pandas",
    "pyarrow.compute",
    "pyspark.worker",
    "penstock.spark.executor.merging",
    "penstock.spark.executor.router",
    "penstock.spark.executor.work",
)


def main() -> None:
    """Import everything, then serve like Spark's own daemon."""
    _import_quietly()
    # A collection in a worker would touch, and so copy, the pages of all these modules.
    gc.collect()
    gc.freeze()
    manager()


def _import_quietly() -> None:
    """Import the modules while the standard output leads to the standard error.

    Spark reads the port of the daemon from the daemon's standard output. Text that a module prints
    while it is imported must not arrive there. Spark starts Python with unbuffered output.
    """
    to_spark = os.dup(1)
    os.dup2(2, 1)
    for name in _MODULES:
        __import__(name)
    os.dup2(to_spark, 1)
    os.close(to_spark)


if __name__ == "__main__":
    main()
