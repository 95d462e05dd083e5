"""The control channel against peers of every kind; no Spark needed."""

import contextlib
import logging
import socket
import threading

import pytest

from penstock.control import Snapshot
from penstock.errors import PenstockError
from penstock.spark.channel import Address, Answer, ControlServer, fetch
from penstock.spark.wire import Wire, WireError


@pytest.fixture
def asked():
    return []


@pytest.fixture
def server(asked):
    def handler(request):
        asked.append(request)
        return Answer("query", "7", Snapshot(int(request["batch"]), 1.0, b"x" * 300_000))

    started = ControlServer("127.0.0.1", handler)
    yield started
    started.close()


def version(server, batch=1):
    return fetch(server.address, {"batch": batch}, None).snapshot.version


def test_a_snapshot_is_sent_once(server, asked):
    first = fetch(server.address, {"batch": 1}, None)
    assert (first.query, first.batch, first.snapshot.packed) == ("query", "7", b"x" * 300_000)
    again = fetch(server.address, {"batch": 1}, first.snapshot)
    assert again == first
    assert again.snapshot.packed is first.snapshot.packed
    assert fetch(server.address, {"batch": 2}, first.snapshot).snapshot.version == 2
    assert [request["version"] for request in asked] == [None, 1, 1]


def test_a_peer_without_the_key_is_refused(server, asked):
    wrong = Address(server.address.host, server.address.port, b"wrong")
    with pytest.raises(ConnectionError):
        fetch(wrong, {"batch": 1}, None)
    assert asked == []
    assert version(server) == 1


def test_a_server_without_the_key_is_refused():
    """A program that has taken the driver's port learns nothing, and is not believed."""
    impostor = ControlServer("127.0.0.1", lambda request: None)
    where = Address("127.0.0.1", impostor.address.port, b"the right key")
    with pytest.raises(ConnectionError):
        fetch(where, {"batch": 1}, None)
    impostor.close()


def test_another_program_on_the_port_is_recognised():
    def answer(listener):
        peer, _ = listener.accept()
        with peer:
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as other:
        threading.Thread(target=answer, args=(other,), daemon=True).start()
        where = Address("127.0.0.1", other.getsockname()[1], b"key")
        with pytest.raises(ConnectionError, match="another program"):
            fetch(where, {"batch": 1}, None)


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
        assert version(server) == 1


def test_silent_peers_do_not_block_others(server):
    where = server.address.host, server.address.port
    with contextlib.ExitStack() as silent:
        for _ in range(20):
            silent.enter_context(socket.create_connection(where))
        assert version(server) == 1


def test_silent_peers_are_dropped():
    server = ControlServer("127.0.0.1", lambda request: request, handshake_s=0.1)
    with socket.create_connection((server.address.host, server.address.port)) as silent:
        silent.settimeout(60)
        while silent.recv(1000):
            pass  # the challenge, then the end: hung up
    server.close()


@pytest.mark.parametrize("nonsense", [b"not json", b"[]", b"{}", b'{"batch": "x"}'])
def test_nonsense_after_the_handshake_ends_the_connection_only(server, nonsense, caplog):
    with socket.create_connection((server.address.host, server.address.port)) as peer:
        peer.settimeout(60)
        wire = Wire.connect(peer, server.address.key)
        with caplog.at_level(logging.WARNING, "penstock"):
            wire.send(nonsense)
            with pytest.raises(EOFError):
                wire.receive()
    assert "cannot be read" in caplog.text
    assert version(server) == 1


def test_a_request_that_is_too_long_ends_the_connection_only(server):
    with pytest.raises(ConnectionError):
        version(server, batch="9" * 10_000)
    assert version(server) == 1


def test_a_vanished_driver_is_noticed_at_once(server):
    assert version(server) == 1
    server.close()
    with pytest.raises(ConnectionError, match=f"127.0.0.1:{server.address.port}"):
        version(server)


def test_many_at_once(server):
    versions = []

    def one(batch):
        versions.extend(version(server, batch) for _ in range(5))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(1, 21)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(versions) == sorted(list(range(1, 21)) * 5)


def test_the_port_can_be_set_and_the_next_is_tried():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = ControlServer("127.0.0.1", lambda request: request, port=port, tries=50)
        assert port < server.address.port < port + 50
        server.close()
        with pytest.raises(PenstockError, match=f"port {port}.*spark.penstock.port"):
            ControlServer("127.0.0.1", lambda request: request, port=port)


def test_an_unknown_address_is_refused():
    with pytest.raises(PenstockError, match=r"cannot listen on '203.0.113.1'.*bindAddress"):
        ControlServer("203.0.113.1", lambda request: request)


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_a_driver_with_ipv6_only():
    try:
        server = ControlServer("::1", lambda request: Answer("", "1", Snapshot(3, 1.0, b"x")))
    except PenstockError as error:
        pytest.skip(str(error))
    assert version(server) == 3
    server.close()


@pytest.fixture
def ends():
    """Both ends of an authenticated connection, and their sockets."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        left = socket.create_connection(listener.getsockname())
        right, _ = listener.accept()
    with left, right:
        for one in (left, right):
            one.settimeout(60)
        found = {}
        accepting = threading.Thread(
            target=lambda: found.update(server=Wire.accept(right, b"key")), daemon=True
        )
        accepting.start()
        client = Wire.connect(left, b"key")
        accepting.join()
        yield client, found["server"], left, right


def frame(message, ends):
    """The bytes of a message on the wire."""
    client, _, _, right = ends
    client.send(message)
    return bytearray(right.recv(1_000))


@pytest.mark.parametrize("place", [0, 4, 20, 36, 40])
def test_a_changed_message_is_refused(ends, place):
    data = frame(b"version 17", ends)
    data[place] ^= 1
    ends[2].sendall(data)
    ends[2].shutdown(socket.SHUT_WR)
    with pytest.raises((WireError, EOFError)):
        ends[1].receive()


def test_a_repeated_message_is_refused(ends):
    data = frame(b"version 17", ends)
    ends[2].sendall(data + data)
    assert ends[1].receive() == b"version 17"
    with pytest.raises(WireError, match="damaged"):
        ends[1].receive()


def test_a_message_sent_back_is_refused(ends):
    data = frame(b"version 17", ends)
    ends[3].sendall(data)
    with pytest.raises(WireError, match="damaged"):
        ends[0].receive()


def test_a_peer_that_vanishes_is_noticed(ends):
    for one in ends[2:]:
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_messages_of_any_length(ends):
    client, server, *_ = ends
    for message in (b"", b"x", b"y" * 100_000):
        threading.Thread(target=client.send, args=(message,), daemon=True).start()
        assert server.receive() == message
        server.send(b"ok")
        assert client.receive() == b"ok"
