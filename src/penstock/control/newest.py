"""Dictionaries that keep their newest entries only."""

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")


def trim(entries: OrderedDict[K, T], most: int) -> None:
    """Remove the oldest entries above a number."""
    while len(entries) > most:
        entries.popitem(last=False)
