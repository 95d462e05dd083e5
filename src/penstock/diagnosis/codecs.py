"""Codecs of Spark's event logs: zstd, lz4 and snappy, as streams of plain bytes.

PyArrow decompresses. Spark writes lz4 and snappy blocks with headers of the libraries lz4-java and
snappy-java, which no codec library for Python reads. Only these headers are read here.
"""

import io
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from penstock.errors import PenstockError

# Bytes that are read at a time.
_PART = 1 << 18
# Plain bytes that are read at a time; the last part of a zstd log that has no end gets lost.
_ZSTD_PART = 1 << 14
_LZ4_MAGIC = b"LZ4Block"
# Token, compressed length, length, checksum (not verified: a broken block fails by itself).
_LZ4_HEADER = struct.Struct("<BIII")
_LZ4_PLAIN = 0x10
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_VERSIONS = 8
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# Blocks of Spark have 32 kB by default; a larger length than this is a broken header.
_LARGEST_BLOCK = 1 << 28

Parts = Iterator[bytes]


class TruncatedError(Exception):
    """The file ends within a block; all parts before it have been returned."""


class CountedFile(io.RawIOBase):
    """A file that counts the bytes which have been read from it.

    Args:
        path: path of the file.
        count: function that receives the number of bytes of each read.
    """

    def __init__(self, path: Path, count: Callable[[int], None]) -> None:
        super().__init__()
        self._file = path.open("rb")
        self._count = count

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read into a buffer, and count."""
        size = self._file.readinto(buffer) or 0
        self._count(size)
        return size

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def parts_of(file: BinaryIO, name: str) -> Parts:
    """Return the plain content of a log in parts; the first bytes of the file have its codec.

    Args:
        file: file that has been opened for reading bytes.
        name: name of the file; Spark ends it with the codec.

    Raises:
        TruncatedError: after the last whole part, if the file ends within a block.
        PenstockError: if the file is broken, or has a codec that is not supported.

    Example:
        >>> list(parts_of(io.BytesIO(b"plain"), "app-1"))
        [b'plain']
    """
    head = file.read(len(_LZ4_MAGIC))
    whole = _Rewound(head, file)
    if head.startswith(_ZSTD_MAGIC):
        return _zstd(whole)
    if head == _LZ4_MAGIC:
        return _lz4(whole)
    if head == _SNAPPY_MAGIC:
        return _snappy(whole)
    if head.startswith(b"ZV") or name.removesuffix(".inprogress").endswith(".lzf"):
        raise PenstockError(
            f"{name} is compressed with lzf, which is not supported; "
            "set spark.eventLog.compression.codec to zstd, lz4 or snappy"
        )
    return iter(lambda: whole.read(_PART), b"")


class _Rewound(io.RawIOBase):
    """A file whose first bytes have already been read."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        super().__init__()
        self._head, self._file = head, file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            size = sys.maxsize
        head, self._head = self._head[:size], self._head[size:]
        more = self._file.read(size - len(head)) if size > len(head) else b""
        return head + (more or b"")


def _zstd(file: _Rewound) -> Parts:
    with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd") as stream:
        while True:
            try:
                part = stream.read(_ZSTD_PART)
            except OSError as error:
                # The message is Arrow's only sign of a stream that was cut.
                if "runcated" in str(error):
                    raise TruncatedError from None
                raise PenstockError(f"the zstd stream is broken: {error}") from None
            if not part:
                return
            yield part


def _lz4(file: _Rewound) -> Parts:
    codec = pa.Codec("lz4_raw")
    header = len(_LZ4_MAGIC) + _LZ4_HEADER.size
    while head := file.read(header):
        if len(head) < header:
            raise TruncatedError
        token, compressed, length, _ = _LZ4_HEADER.unpack_from(head, len(_LZ4_MAGIC))
        if not head.startswith(_LZ4_MAGIC) or max(compressed, length) > _LARGEST_BLOCK:
            raise PenstockError("the lz4 stream is broken: a block has no valid header")
        block = _exactly(file, compressed)
        if length:  # an empty block ends a stream; another stream may follow
            yield block if token & 0xF0 == _LZ4_PLAIN else _block(codec, block, length)


def _snappy(file: _Rewound) -> Parts:
    codec = pa.Codec("snappy")
    while head := file.read(4):
        if len(head) < 4:
            raise TruncatedError
        if head == _SNAPPY_MAGIC[:4]:  # a header; appended streams have one each
            _exactly(file, len(_SNAPPY_MAGIC) - 4 + _SNAPPY_VERSIONS)
            continue
        (compressed,) = struct.unpack(">I", head)
        if compressed > _LARGEST_BLOCK:
            raise PenstockError("the snappy stream is broken: a block has no valid length")
        block = _exactly(file, compressed)
        yield _block(codec, block, _snappy_length(block))


def _snappy_length(block: bytes) -> int:
    """Return the length of a raw snappy block, which its first bytes have.

    Example:
        >>> _snappy_length(bytes([0xAC, 0x02]))
        300
    """
    length = 0
    for place, byte in enumerate(block[:5]):
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    return length


def _block(codec: pa.Codec, block: bytes, length: int) -> bytes:
    if length > _LARGEST_BLOCK:
        raise PenstockError(f"the {codec.name} stream is broken: a block has no valid length")
    try:
        return bytes(codec.decompress(block, decompressed_size=length, asbytes=True))
    except OSError as error:
        raise PenstockError(f"the {codec.name} stream is broken: {error}") from None


def _exactly(file: _Rewound, size: int) -> bytes:
    block = file.read(size)
    if len(block) < size:
        raise TruncatedError
    return block
