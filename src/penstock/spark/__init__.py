"""The engine of real time: the only package that speaks to Spark.

The verbs are in `penstock` itself: `penstock.balance`, `penstock.aggregate`, `penstock.shed`,
`penstock.replay`, `penstock.attach`.
"""

from pyspark import __version__ as _spark_version

from penstock.spark.environment import refuse_old_spark

refuse_old_spark(_spark_version)
