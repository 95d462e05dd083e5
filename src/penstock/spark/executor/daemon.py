"""A daemon of Python workers that has imported everything before it forks the first one.

Spark starts one daemon per executor, and the daemon forks a Python worker for each task that runs
at the same time. Spark's own daemon imports nothing, so that every worker imports NumPy, Numba,
pandas, PyArrow and Penstock again: a second of CPU each. This daemon imports them once, and a
worker starts in the time of a fork. It is a setting of the application:

    spark.python.daemon.module=penstock.spark.executor.daemon

Spark imports after the fork because imports can start threads, which a fork does not copy. Of
these imports NumPy (OpenBLAS) and PyArrow (jemalloc) start one each, and both libraries restore
themselves in the child, as programs with `multiprocessing` rely on.
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
    """Import everything, then serve as Spark's own daemon does.

    Spark reads the daemon's port from its standard output. A module that prints while it is
    imported must not write there.
    """
    spoken = os.dup(1)
    os.dup2(2, 1)
    for name in _MODULES:
        __import__(name)
    os.dup2(spoken, 1)
    os.close(spoken)
    # A collection in a worker would touch, and so copy, the pages of all these modules.
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
