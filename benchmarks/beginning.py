"""Where the key groups of a query are at first: what benchmarks begin with."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from penstock.spark import internals


def begin(spark: SparkSession, chosen: Callable[[int, int], int]) -> None:
    """Tell Spark where the key groups of its only query begin; call it before a batch.

    Args:
        spark: the session.
        chosen: returns the executor, as a number, of an operator's partition.
    """
    (query,) = spark.streams.active
    hosts = internals.executor_hosts(spark)
    names = sorted(hosts)
    for operator in internals.state_operators(spark, str(query.id)) or []:
        for partition in range(operator.partitions):
            name = names[chosen(operator.number, partition) % len(names)]
            where = operator, partition, name, hosts[name][0]
            internals.hint_location(spark, str(query.runId), *where)
