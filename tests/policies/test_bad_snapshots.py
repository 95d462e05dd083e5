"""Snapshots with a right checksum and a wrong header are refused in one line."""

import json
import zlib

import pytest
from refusals import refusal

from penstock.policies import codec
from penstock.policies.grouping import RoundRobin


def snapshot(header):
    body = json.dumps(header).encode()
    return codec._PREFIX.pack(codec.MAGIC, len(body), zlib.crc32(body)) + body


def described(*arrays):
    return {"version": codec.VERSION, "name": "RoundRobin", "arrays": list(arrays)}


@pytest.mark.parametrize(
    "header",
    [
        [],
        None,
        {},
        {"version": codec.VERSION},
        {"version": codec.VERSION, "name": "RoundRobin"},
        {"version": codec.VERSION, "name": "RoundRobin", "arrays": 5},
        described(["turn"]),
        described(["turn", "<x9", [1]]),
        described(["turn", "<f8", [99]]),
        described(["turn", "<f8", [10**30]]),
        described(["turn", "<f8", "x"]),
        described([["turn"], "<f8", [0]]),
    ],
    ids=str,
)
def test_a_snapshot_with_a_right_checksum_and_a_wrong_header(header):
    assert refusal(lambda: RoundRobin(3).restore(snapshot(header))).startswith("snapshot ")
