"""The control channel against peers of every kind; no Spark needed."""

import contextlib
import socket
import threading
import time

import pytest

from penstock.control import Snapshot
from penstock.spark.channel import Address, ControlClient, ControlServer


@pytest.fixture
def asked():
    return []


@pytest.fixture
def server(asked):
    def handler(request):
        asked.append(request)
        return Snapshot(int(request["batch"]), 1.0, b"x" * 300_000)

    started = ControlServer("127.0.0.1", handler)
    yield started
    started.close()


def fetch(server, batch=1, have=None):
    return ControlClient(server.address).fetch({"batch": batch}, have)


def test_a_snapshot_is_fetched_once(server, asked):
    client = ControlClient(server.address)
    first = client.fetch({"batch": 1}, None)
    assert first.packed == b"x" * 300_000
    again = client.fetch({"batch": 1}, first)
    assert again == first
    assert again.packed is first.packed
    assert client.fetch({"batch": 2}, first).version == 2
    assert [request["version"] for request in asked] == [None, 1, 1]


def test_a_peer_without_the_key_is_refused(server, asked):
    wrong = Address(server.address.host, server.address.port, b"wrong")
    with pytest.raises(ConnectionError):
        ControlClient(wrong).fetch({"batch": 1}, None)
    assert asked == []
    assert fetch(server).version == 1


def test_the_key_is_not_shown(server):
    assert server.address.key.hex() not in repr(server.address)
    assert "key" not in repr(server.address)


@pytest.mark.parametrize(
    "garbage", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100_000, b"\x00\x00\x00\x01x"]
)
def test_garbage_disturbs_nobody(server, garbage):
    with socket.create_connection((server.address.host, server.address.port)) as peer:
        with contextlib.suppress(OSError):  # hung up already: just as good
            peer.sendall(garbage)
        assert fetch(server).version == 1


def test_silent_peers_do_not_block_others(server):
    where = server.address.host, server.address.port
    with contextlib.ExitStack() as silent:
        for _ in range(20):
            silent.enter_context(socket.create_connection(where))
        assert fetch(server).version == 1


def test_silent_peers_are_dropped():
    server = ControlServer("127.0.0.1", lambda request: request, handshake_s=0.1)
    with socket.create_connection((server.address.host, server.address.port)) as silent:
        silent.settimeout(60)
        while silent.recv(1000):
            pass  # the challenge, then the end: hung up
    server.close()


def test_nonsense_after_the_handshake_ends_the_connection_only(server):
    client = ControlClient(server.address)
    client.fetch({"batch": 1}, None)
    client._peer.send_bytes(b"not json")
    with pytest.raises(ConnectionError):
        client.fetch({"batch": 2}, None)
    assert fetch(server).version == 1


def test_a_request_that_is_too_long_ends_the_connection_only(server):
    with pytest.raises(ConnectionError):
        fetch(server, batch="9" * 10_000)
    assert fetch(server).version == 1


def test_a_vanished_driver_is_noticed_at_once_and_left_alone(server):
    client = ControlClient(server.address)
    client.fetch({"batch": 1}, None)
    server.close()
    for _ in range(3):
        with pytest.raises(ConnectionError):
            client.fetch({"batch": 2}, None)
    assert client._silent_until_s > time.monotonic()


def test_many_at_once(server):
    versions = []

    def one(batch):
        client = ControlClient(server.address)
        versions.extend(client.fetch({"batch": batch}, None).version for _ in range(5))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(1, 21)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(versions) == sorted(list(range(1, 21)) * 5)
