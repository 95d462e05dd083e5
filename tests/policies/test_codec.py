"""Snapshots: what was written is read, and nothing else is."""

import json
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from penstock.errors import PenstockError
from penstock.policies import codec

NUMBERS = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
)
ARRAYS = hnp.arrays(
    NUMBERS, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4), unique=False
)


def crafted(header, body=b""):
    """A blob with a valid checksum."""
    text = json.dumps(header).encode()
    prefix = struct.pack("<8sII", b"PENSTOCK", len(text), zlib.crc32(text + body))
    return prefix + text + body


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.text(max_size=8), ARRAYS, max_size=4), st.text(max_size=8))
def test_round_trip(arrays, name):
    found = codec.decode(name, codec.encode(name, arrays))
    assert list(found) == list(arrays)
    for key, array in arrays.items():
        assert found[key].dtype == array.dtype.newbyteorder("=")
        assert found[key].shape == array.shape
        np.testing.assert_array_equal(found[key], array)
        assert found[key].flags.writeable


def test_the_format_is_frozen():
    arrays = {"a": np.array([1, 2], dtype=np.int16), "b": np.array([[0.5]])}
    header = {"version": 1, "name": "X", "arrays": [["a", "<i2", [2]], ["b", "<f8", [1, 1]]]}
    body = b"\x01\x00\x02\x00" + struct.pack("<d", 0.5)
    assert codec.encode("X", arrays) == crafted(header, body)


def test_bytes_are_little_endian_on_every_machine():
    little, big = (np.array([1, 2], dtype=order + "i4") for order in "<>")
    assert codec.encode("X", {"a": big}) == codec.encode("X", {"a": little})


def test_views_are_written_as_they_look():
    array = np.arange(12).reshape(3, 4)[::2, ::-1]
    found = codec.decode("X", codec.encode("X", {"a": array}))["a"]
    np.testing.assert_array_equal(found, array)


def test_any_flipped_bit_is_refused():
    blob = codec.encode("X", {"a": np.arange(3.0)})
    for bit in range(8 * len(blob)):
        damaged = bytearray(blob)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(PenstockError):
            codec.decode("X", bytes(damaged))


def test_any_truncation_is_refused():
    blob = codec.encode("X", {"a": np.arange(3.0)})
    for length in range(len(blob)):
        with pytest.raises(PenstockError):
            codec.decode("X", blob[:length])
    with pytest.raises(PenstockError):
        codec.decode("X", blob + b"\0")


@pytest.mark.parametrize("blob", [b"", b"PENS", b"PENSTOCK", b"\x80\x04N.", b"x" * 100])
def test_foreign_bytes_are_refused(blob):
    with pytest.raises(PenstockError):
        codec.decode("X", blob)


def test_another_version_is_refused():
    with pytest.raises(PenstockError) as caught:
        codec.decode("X", crafted({"version": 2, "name": "X", "arrays": []}))
    assert str(caught.value) == "snapshot has format 2, this version reads 1; learn again"


def test_another_name_is_refused():
    with pytest.raises(PenstockError) as caught:
        codec.decode("X", codec.encode("Y", {}))
    assert str(caught.value) == "snapshot is of 'Y', expected 'X'"


@pytest.mark.parametrize("dtype", ["|O", "<U4", "|S4", "<M8[s]", "<c16", "|V8"])
def test_only_numbers_are_read(dtype):
    blob = crafted({"version": 1, "name": "X", "arrays": [["a", dtype, [1]]]}, b"\0" * 16)
    with pytest.raises(PenstockError, match="numbers only"):
        codec.decode("X", blob)


@pytest.mark.parametrize(
    "array", [np.array([None, "text"]), np.array(["text"]), np.zeros(2, dtype="i4,f4")]
)
def test_only_numbers_are_written(array):
    with pytest.raises(PenstockError):
        codec.encode("X", {"a": array})
