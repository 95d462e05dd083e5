"""Kernels as plain Python, close to compiled ones.

Fields of records are wider here: Numba rounds products of two of them to 32 bits.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np


class Entry(np.record):
    """An entry of a structured array with its fields as attributes, in 64 bits."""

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401 - a number, or an attribute
        dtype = np.void.__getattribute__(self, "dtype")
        if name not in dtype.names:
            return super().__getattribute__(name)
        value = np.void.__getitem__(self, name)
        return np.float64(value) if dtype[name].kind == "f" else np.int64(value)


def with_attributes(value: Any) -> Any:  # noqa: ANN401 - any argument of a kernel
    """Give the entries of structured arrays, also of those in a tuple, attributes."""
    if isinstance(value, tuple):
        made = map(with_attributes, value)
        return value._make(made) if hasattr(value, "_make") else tuple(made)
    if isinstance(value, np.ndarray) and value.dtype.names is not None:
        return value.view(np.dtype((Entry, value.dtype)))
    return value


def interpreted(*_: object, **__: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Take the place of Numba's compiler: a kernel stays plain Python."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: object) -> Any:  # noqa: ANN401 - what the kernel returns
            return function(*map(with_attributes, arguments))

        return call

    return decorate
