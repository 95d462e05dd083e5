"""The engine of real time: the only package that speaks to Spark."""

from penstock.spark.balance import Operator, balance
from penstock.spark.session import session

__all__ = ["Operator", "balance", "session"]
