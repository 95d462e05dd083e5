"""Learned state as bytes: a small self-describing format of named arrays, never pickle.

    magic | header length | checksum | header (JSON) | the arrays' raw bytes, little endian

The header has the version of the format, the name of the policy, and dtype and shape of each array.
Foreign, truncated or damaged bytes are refused with a `PenstockError` before any of them is used.
"""

import json
import math
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError

MAGIC = b"PENSTOCK"
VERSION = 1
_PREFIX = struct.Struct("<8sII")

Arrays = dict[str, npt.NDArray[Any]]


def encode(name: str, arrays: Arrays) -> bytes:
    """Write named arrays of numbers as bytes."""
    for key, array in arrays.items():
        _refuse_other_than_numbers(key, array.dtype)
    plain = {key: np.asarray(a, dtype=a.dtype.newbyteorder("<")) for key, a in arrays.items()}
    described = [[key, a.dtype.str, list(a.shape)] for key, a in plain.items()]
    header = json.dumps({"version": VERSION, "name": name, "arrays": described}).encode()
    body = header + b"".join(a.tobytes() for a in plain.values())
    return _PREFIX.pack(MAGIC, len(header), zlib.crc32(body)) + body


def name_in(data: bytes) -> str:
    """Return the name for which `encode` wrote some bytes."""
    return str(_checked(data)[0].get("name"))


def decode(name: str, data: bytes) -> Arrays:
    """Read the arrays that `encode` wrote for the same name; refuse everything else."""
    header, body = _checked(data)
    if header.get("version") != VERSION:
        raise PenstockError(
            f"snapshot has format {header.get('version')}, this version reads {VERSION}; "
            "learn again"
        )
    if header.get("name") != name:
        raise PenstockError(f"snapshot is of {header.get('name')!r}, expected {name!r}")
    try:
        return _arrays(header["arrays"], body)
    except PenstockError:
        raise
    except (KeyError, OverflowError, SyntaxError, TypeError, ValueError):
        raise PenstockError("snapshot is damaged; its header does not describe it") from None


def _checked(data: bytes) -> tuple[dict[str, Any], bytes]:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise PenstockError(f"snapshot must be bytes; got {type(data).__name__}")
    data = bytes(data)
    if len(data) < _PREFIX.size or not data.startswith(MAGIC):
        raise PenstockError("not a Penstock snapshot; its first bytes differ")
    _, header_length, checksum = _PREFIX.unpack_from(data)
    body = data[_PREFIX.size :]
    if zlib.crc32(body) != checksum:
        raise PenstockError("snapshot is truncated or damaged; its checksum differs")
    try:
        header = json.loads(body[:header_length])
    except (ValueError, RecursionError):
        raise PenstockError("snapshot is damaged; its header cannot be read") from None
    if not isinstance(header, dict):
        raise PenstockError("snapshot is damaged; its header does not describe it")
    return header, body[header_length:]


def _arrays(described: list[Any], body: bytes) -> Arrays:
    arrays: Arrays = {}
    offset = 0
    for key, dtype_name, shape in described:
        dtype = np.dtype(dtype_name)
        _refuse_other_than_numbers(key, dtype)
        count = math.prod(shape)
        flat = np.frombuffer(body, dtype=dtype, count=count, offset=offset)
        arrays[key] = flat.reshape(shape).astype(dtype.newbyteorder("="))
        offset += count * dtype.itemsize
    return arrays


def _refuse_other_than_numbers(key: str, dtype: "np.dtype[Any]") -> None:
    if dtype.kind not in "biuf":
        raise PenstockError(f"snapshots hold numbers only; got {dtype} in {key!r}")
