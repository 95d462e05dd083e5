"""Sessions, clusters and small jobs for the demo, the experiments and the tests."""

from penstock.spark.lab.clusters import StandaloneCluster
from penstock.spark.lab.sessions import session

__all__ = ["StandaloneCluster", "session"]
