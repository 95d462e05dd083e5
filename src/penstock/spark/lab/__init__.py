"""Sessions, clusters and small jobs to try things out: for examples, experiments and tests."""

from penstock.spark.lab.clusters import StandaloneCluster
from penstock.spark.lab.kafka import KafkaBroker
from penstock.spark.lab.sessions import session

__all__ = ["KafkaBroker", "StandaloneCluster", "session"]
