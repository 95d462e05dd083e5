"""A relay between routers and the driver's control channel, which can be closed, deaf or mad."""

import contextlib
import os
import socket
import threading

PASS, CLOSED, BLOCKED, GARBAGE = "pass", "closed", "blocked", "garbage"


class ChannelProxy:
    """Listens on a port of its own, and passes bytes on to the control server.

    In the mode `closed` nobody listens. In the mode `blocked` connections are accepted and get no
    answer. In the mode `garbage` the first bytes of the driver, or later ones, are overwritten.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._mode = PASS
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.port = 0
        self._listen()

    def _listen(self) -> None:
        family = socket.AF_INET6 if ":" in self._target[0] else socket.AF_INET
        where = self._target[0], self.port
        self._listener = socket.create_server(where, family=family, backlog=64)
        self.port = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._accepting.start()

    def set(self, mode: str) -> None:
        """Change the mode; connections of the old one end."""
        with self._lock:
            before, self._mode = self._mode, mode
            for peer in self._open:
                with contextlib.suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)
            self._open.clear()
        if mode == CLOSED != before:
            self._listener.close()
            with contextlib.suppress(OSError):  # wakes the thread that waits in accept
                socket.create_connection((self._target[0], self.port), 0.2).close()
            self._accepting.join(5)
        elif before == CLOSED != mode:
            self._listen()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            if self._mode == CLOSED:
                peer.close()
                return
            threading.Thread(target=self._serve, args=(peer, self._mode), daemon=True).start()

    def _serve(self, peer: socket.socket, mode: str) -> None:
        with self._lock:
            self._open.add(peer)
        with contextlib.suppress(OSError), peer:
            if mode == BLOCKED:
                while peer.recv(1 << 16):
                    pass
                return
            if mode == GARBAGE and os.urandom(1)[0] % 2:
                peer.sendall(os.urandom(4_096))
                return
            with socket.create_connection(self._target, 5) as server:
                args = server, peer, mode == GARBAGE
                back = threading.Thread(target=_copy, args=args, daemon=True)
                back.start()
                _copy(peer, server)
                back.join()


def _copy(source: socket.socket, target: socket.socket, damaging: bool = False) -> None:
    """Pass bytes on until one side ends; damage one of those after the handshake, if asked to."""
    passed = 0
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            if damaging and passed > 60:
                at = os.urandom(1)[0] % len(data)
                data = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
            passed += len(data)
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
