"""The control channel: routers in executors fetch the current snapshot from the driver.

Requests and answers are bytes (JSON, and arrays as the codec writes them), never pickle. The server
drops a peer that sends nothing, nonsense or too much. Such a peer holds one thread for a few
seconds and disturbs no other.
"""

import contextlib
import json
import logging
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.control import Snapshot
from penstock.errors import PenstockError, first_line
from penstock.spark.wire import Wire

log = logging.getLogger("penstock")

HANDSHAKE_S = 5.0
ANSWER_S = 10.0
MAX_REQUEST_BYTES = 4_096

_BROKEN = (OSError, EOFError)
_MALFORMED = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)


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


class Answer(NamedTuple):
    """The driver's answer to a router.

    Attributes:
        query: identity of the streaming query; empty for a batch job.
        batch: name of the batch.
        snapshot: snapshot of the batch.
        failed: number of records of the batch on which the function failed, if the task asks.
        received: number of records of the batch, if the task asks; 0 if it is unknown.
        wanted: hashes of keys whose names a dashboard shows; mostly none.
        run: run of the query; empty for a batch job.
    """

    query: str
    batch: str
    snapshot: Snapshot
    failed: int = 0
    received: int = 0
    wanted: tuple[int, ...] = ()
    run: str = ""

    def header(self) -> dict[str, Any]:
        """Return everything but the policies, for JSON."""
        more = {"failed": self.failed, "received": self.received, "wanted": self.wanted}
        task = {"query": self.query, "name": self.batch, "run": self.run}
        return {**task, **more, **self.snapshot.header()}

    @classmethod
    def of(cls, header: dict[str, Any], packed: bytes) -> "Answer":
        """Make an answer from its `header` and the packed policies."""
        return cls(
            str(header["query"]),
            str(header["name"]),
            Snapshot.of(header, packed),
            failed=int(header["failed"]),
            received=int(header["received"]),
            wanted=tuple(map(int, header["wanted"])),
            run=str(header["run"]),
        )


Handler = Callable[[dict[str, Any]], Answer]


class RefusedError(ConnectionError):
    """The driver is well, and has no answer for this operator."""


class ControlServer:
    """Answers requests for snapshots, each peer in a thread of its own.

    Args:
        listen: address to listen on.
        handler: function that returns the answer to a request.
        host: address that executors connect to; `listen` by default.
        port: port to listen on; 0 for any free one.
        tries: number of ports to try, from `port` on.
        handshake_s: time in which a peer must prove that it knows the key.
    """

    def __init__(
        self,
        listen: str,
        handler: Handler,
        *,
        host: str | None = None,
        port: int = 0,
        tries: int = 1,
        handshake_s: float = HANDSHAKE_S,
    ) -> None:
        self._handler = handler
        self._handshake_s = handshake_s
        self._listener = _listener(listen, port, tries)
        name, bound = self._listener.getsockname()[:2]
        self.address = Address(host or str(name), int(bound), secrets.token_bytes(32))
        self._local = str(name), int(bound)
        self._closed = threading.Event()
        threading.Thread(target=self._accept, name="penstock-channel", daemon=True).start()

    def close(self) -> None:
        """Stop listening; connections end with their request."""
        self._closed.set()
        with contextlib.suppress(OSError):
            # Closing does not wake the thread that waits in accept: one more connection does.
            socket.create_connection(self._local, 1).close()
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                peer, _ = self._listener.accept()
            except OSError:
                self._closed.wait(0.1)
                continue
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        # An error means that the peer is gone, or is a stranger.
        with peer, contextlib.suppress(*_BROKEN):
            peer.settimeout(self._handshake_s)
            wire = Wire.accept(peer, self.address.key)
            peer.settimeout(ANSWER_S)
            while not self._closed.is_set():
                self._answer(wire)

    def _answer(self, wire: Wire) -> None:
        request = wire.receive(MAX_REQUEST_BYTES)
        try:
            asked = json.loads(request)
            answer = self._handler(asked)
            known = asked.get("version") == answer.snapshot.version
        except RefusedError as error:
            wire.send(json.dumps({"refused": str(error)}).encode())
            return
        except _MALFORMED as error:
            log.warning("a request of a router cannot be read (%s)", first_line(error))
            raise EOFError from None
        wire.send(json.dumps({**answer.header(), "known": known}).encode())
        if not known:
            wire.send(answer.snapshot.packed)


def _listener(listen: str, port: int, tries: int) -> socket.socket:
    """Return a socket that listens, on the first of some ports that is free."""
    failure: OSError | None = None
    for candidate in range(port, port + max(1, tries)) if port else (0,):
        try:
            family, *_, where = socket.getaddrinfo(listen, candidate, type=socket.SOCK_STREAM)[0]
            return socket.create_server(where[:2], family=family, backlog=1024)
        except OSError as error:
            failure = error
    ports = f"ports {port} to {port + tries - 1}" if tries > 1 else f"port {port or 'any'}"
    raise PenstockError(
        f"the control channel cannot listen on {listen!r}, {ports} ({failure}); set "
        "spark.driver.bindAddress to an address of this machine, or spark.penstock.port"
    )


def fetch(address: Address, request: dict[str, Any], have: Snapshot | None) -> Answer:
    """Return the driver's answer to a request; raise OSError if the driver has none.

    Args:
        address: address of the driver.
        request: operator, query and batch.
        have: snapshot that is at hand; its policies are not sent again.
    """
    try:
        where = address.host, address.port
        with socket.create_connection(where, timeout=HANDSHAKE_S) as sock:
            wire = Wire.connect(sock, address.key)
            sock.settimeout(ANSWER_S)
            version = have.version if have else None
            wire.send(json.dumps({**request, "version": version}).encode())
            header = json.loads(wire.receive())
            if "refused" in header:
                raise RefusedError(header["refused"])
            packed = have.packed if header["known"] and have is not None else wire.receive()
            return Answer.of(header, packed)
    except RefusedError:
        raise
    except (*_BROKEN, *_MALFORMED) as error:
        raise ConnectionError(
            f"the driver does not answer at {address.host}:{address.port} ({error!r})"
        ) from None
