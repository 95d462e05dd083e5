"""The control channel: routers in executors fetch the current snapshot from the driver.

Requests and answers are bytes (JSON, and arrays as the codec writes them), never pickle. Both
sides prove that they know the key before anything else is read. The server drops a peer that sends
nothing, nonsense or too much. Such a peer holds one thread for a few seconds and disturbs no other.
"""

import contextlib
import json
import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import (
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
)
from typing import Any

from penstock.control import Snapshot
from penstock.errors import PenstockError

HANDSHAKE_S = 5.0
ANSWER_S = 10.0
MAX_REQUEST_BYTES = 4_096
# After a failure a client does not ask the driver for a while, each time for longer: waiting for an
# answer would delay every task.
BACK_OFF_S = 5.0
MOST_BACK_OFF_S = 300.0

_BROKEN = (
    OSError,
    EOFError,
    AuthenticationError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    AssertionError,
)


@dataclass(frozen=True)
class Address:
    """The address of the driver, and the key that proves a client's identity.

    Attributes:
        host: host name or address.
        port: port.
        key: secret of the application.
    """

    host: str
    port: int
    key: bytes

    def __repr__(self) -> str:
        return f"Address({self.host!r}, {self.port})"  # without the key


Handler = Callable[[dict[str, Any]], Snapshot]


class ControlServer:
    """Answers requests for snapshots, each peer in a thread of its own.

    Args:
        listen: address to listen on.
        handler: function that returns the snapshot for a request.
        host: address that executors connect to; `listen` by default.
        handshake_s: time in which a peer must prove that it knows the key.
    """

    def __init__(
        self,
        listen: str,
        handler: Handler,
        *,
        host: str | None = None,
        handshake_s: float = HANDSHAKE_S,
    ) -> None:
        self._handler = handler
        self._handshake_s = handshake_s
        try:
            self._listener = Listener((listen, 0), family="AF_INET", backlog=128)
        except OSError as error:
            raise PenstockError(
                f"the control channel cannot listen on {listen!r} ({error}); set "
                "spark.driver.bindAddress to an address of this machine"
            ) from None
        name, port = self._listener.address[:2]
        self.address = Address(host or str(name), int(port), secrets.token_bytes(32))
        self._local = str(name), int(port)
        self._closed = threading.Event()
        self._peers: set[Connection] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="penstock-channel", daemon=True).start()

    def close(self) -> None:
        """Stop listening, and close all connections."""
        self._closed.set()
        with contextlib.suppress(OSError):
            # Closing does not wake the thread that waits in accept: one more connection does.
            socket.create_connection(self._local, 1).close()
        self._listener.close()
        with self._lock:
            for peer in self._peers:
                _hang_up(peer)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                peer = self._listener.accept()
            except OSError:
                self._closed.wait(0.1)
                continue
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: Connection) -> None:
        with self._lock:
            self._peers.add(peer)
        try:
            _no_delay(peer)
            with _limited(peer, self._handshake_s):
                deliver_challenge(peer, self.address.key)
                answer_challenge(peer, self.address.key)
            while not self._closed.is_set():
                request = json.loads(peer.recv_bytes(MAX_REQUEST_BYTES))
                snapshot = self._handler(request)
                known = request.get("version") == snapshot.version
                peer.send_bytes(json.dumps({**snapshot.header(), "known": known}).encode())
                if not known:
                    peer.send_bytes(snapshot.packed)
        except _BROKEN:
            pass  # the peer is gone, or is a stranger
        finally:
            with self._lock:
                self._peers.discard(peer)
            peer.close()


class ControlClient:
    """Fetches snapshots for the routers of one Python worker, over one connection."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._peer: Connection | None = None
        self._silent_until_s = 0.0
        self._back_off_s = BACK_OFF_S

    def fetch(self, request: dict[str, Any], have: Snapshot | None) -> Snapshot:
        """Return the snapshot for a request; raise OSError if the driver does not answer."""
        if time.monotonic() < self._silent_until_s:
            raise ConnectionError("the driver did not answer a moment ago")
        try:
            answer = self._ask(request, have)
            self._back_off_s = BACK_OFF_S
        except _BROKEN as error:
            self._silent_until_s = time.monotonic() + self._back_off_s
            self._back_off_s = min(2 * self._back_off_s, MOST_BACK_OFF_S)
            if self._peer is not None:
                self._peer.close()
                self._peer = None
            raise ConnectionError(f"no answer from the driver: {error!r}") from None
        return answer

    def _ask(self, request: dict[str, Any], have: Snapshot | None) -> Snapshot:
        peer = self._peer or self._connect()
        version = have.version if have else None
        peer.send_bytes(json.dumps({**request, "version": version}).encode())
        header = json.loads(peer.recv_bytes())
        packed = have.packed if header["known"] and have is not None else peer.recv_bytes()
        return Snapshot.of(header, packed)

    def _connect(self) -> Connection:
        where = self._address.host, self._address.port
        wire = socket.create_connection(where, timeout=HANDSHAKE_S)
        wire.settimeout(None)
        peer = Connection(wire.detach())
        with _limited(peer, HANDSHAKE_S):
            answer_challenge(peer, self._address.key)
            deliver_challenge(peer, self._address.key)
        _no_delay(peer)
        _give_up_after(peer, ANSWER_S)
        self._peer = peer
        return peer


@contextlib.contextmanager
def _limited(peer: Connection, seconds: float) -> Iterator[None]:
    """Close the connection if the block takes longer."""
    timer = threading.Timer(seconds, _hang_up, args=(peer,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _wire(peer: Connection) -> socket.socket:
    return socket.socket(fileno=os.dup(peer.fileno()))


def _hang_up(peer: Connection) -> None:
    with contextlib.suppress(OSError), _wire(peer) as wire:
        wire.shutdown(socket.SHUT_RDWR)


def _give_up_after(peer: Connection, seconds: float) -> None:
    """Let every read and write fail after a while, without a thread that watches."""
    whole, part = divmod(int(seconds * 1e6), 1_000_000)
    limit = struct.pack("@ll", whole, part)
    with _wire(peer) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _no_delay(peer: Connection) -> None:
    with _wire(peer) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
