"""The engine of real time: the only package that speaks to Spark."""

from penstock.spark.session import session

__all__ = ["session"]
