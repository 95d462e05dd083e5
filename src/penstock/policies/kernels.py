"""How hot loops are compiled: once per machine, without the GIL, kept on disk.

A kernel is compiled at its first call, so that `penstock --help` stays quick. Its machine code is
cached next to the source, or in the user's cache folder if the source folder is read-only.
Callers convert their arrays to one dtype, so each kernel exists in one version only.

Numba numbers the functions that it compiles, from 1 in each process, and the number is part of
their symbols in machine code. Two processes may give one symbol to different functions. A third
one, which loads both from the cache, then calls the wrong one: results are wrong without an error
(numba/numba#10486). So the numbers are random here, also after a fork.
"""

import secrets
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from numba.core.bytecode import FunctionIdentity

P = ParamSpec("P")
R = TypeVar("R")

Bool = npt.NDArray[np.bool_]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt16 = npt.NDArray[np.uint16]
UInt32 = npt.NDArray[np.uint32]
UInt64 = npt.NDArray[np.uint64]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]


FunctionIdentity._unique_ids = iter(lambda: secrets.randbits(63), -1)  # type: ignore[assignment]


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop over arrays."""
    try:
        compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # no folder is writable: compile in every process
        compiled = numba.njit(nogil=True, error_model="numpy")(function)
    return cast(Callable[P, R], compiled)
