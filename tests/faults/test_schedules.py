"""Schedules: the same for the same seed, of all kinds, and small when they have failed."""

import contextlib
import shlex
import socket
import struct
import threading
from collections import Counter

import pytest

from faults.__main__ import _chosen, _options, again_of
from faults.accounts import _deviations
from faults.hands import HANDS
from faults.proxy import BLOCKED, CLOSED, GARBAGE, PASS, ChannelProxy
from faults.schedules import KINDS, NETWORK, QUERIES, hits, schedule, shrunk


def test_the_same_seed_yields_the_same_schedule():
    assert schedule(7) == schedule(7)
    assert schedule(7) != schedule(8)


@pytest.mark.parametrize(
    "words", [[], ["--faults", "4"], ["--query", "balance", "--query", "shed", "--kind", "scaled"]]
)
@pytest.mark.parametrize("seed", range(20))
def test_the_printed_options_repeat_the_schedule(seed, words):
    options = _options(words)
    failed = _chosen(options, seed)
    kept = list(range(0, len(failed.faults), 2))
    again = _options(shlex.split(again_of(failed, options, kept)))
    assert _chosen(again, again.seed) == failed.only(kept)


def test_every_kind_hits_every_query_that_it_can_hit():
    drawn = [schedule(seed, faults=20) for seed in range(400)]
    found = Counter((fault.kind, one.query) for one in drawn for fault in one.faults)
    assert set(found) == {(k, q) for k in KINDS for q in QUERIES if hits(k, q)}
    assert set(HANDS) == set(KINDS) | set(NETWORK)


@pytest.mark.parametrize("guilty", [{3}, {1, 6}, {0, 4, 9}])
def test_a_failing_schedule_shrinks_to_the_guilty_faults(guilty):
    kept = shrunk(range(10), lambda some: guilty <= set(some), tries=200)
    assert set(kept) == guilty


def test_shrinking_ends_after_some_tries():
    tried = []
    shrunk(range(64), lambda some: not tried.append(some), tries=5)
    assert len(tried) == 5


@pytest.fixture
def echo():
    """A server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                while data := peer.recv(1_000):
                    peer.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()
    listener.close()


def asked(port, data=b"x" * 200):
    with socket.create_connection(("127.0.0.1", port), 0.5) as peer:
        peer.settimeout(0.5)
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        found = b""
        with contextlib.suppress(ConnectionResetError):
            while part := peer.recv(1_000):
                found += part
        return found


def test_a_channel_can_be_closed_blocked_and_mad(echo):
    proxy = ChannelProxy(echo)
    assert asked(proxy.port) == b"x" * 200
    proxy.set(CLOSED)
    with pytest.raises(OSError, match="refused"):
        asked(proxy.port)
    proxy.set(PASS)
    assert asked(proxy.port) == b"x" * 200
    proxy.set(GARBAGE)
    assert any(asked(proxy.port, struct.pack("200s", b"y")) != b"y" * 200 for _ in range(5))
    proxy.set(BLOCKED)
    assert asked(proxy.port) == b""
    proxy.set(PASS)
    assert asked(proxy.port) == b"x" * 200
    proxy.set(CLOSED)


def test_counts_that_do_not_add_up_are_deviations():
    counts = {"received": 10, "processed": 7, "shed": 2, "failed": 1}
    assert _deviations("work", counts, 10) == []
    assert len(_deviations("work", counts, 20)) == 1
    assert len(_deviations("work", {**counts, "failed": 0}, 10)) == 1
    assert _deviations("work", None, None) == []
