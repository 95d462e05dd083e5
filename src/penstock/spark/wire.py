"""Authenticated messages over a socket, for the control channel.

Both sides prove that they know the key of the application before any message is read. Each message
then carries a code (HMAC-SHA256) over its number and its bytes, with a key of its connection and
direction. A message that was changed, repeated or left out ends the connection. Messages are not
encrypted: they have costs and hashes of keys, never records.
"""

import hmac
import secrets
import socket
import struct
from typing import Self

MOST_BYTES = 256 * 1024 * 1024

_HELLO = b"penstock-channel-2\n"
_NONCE_BYTES = 32
_CODE_BYTES = 32
_LENGTH = struct.Struct("!I")
_NUMBER = struct.Struct("!Q")
# A peer that has vanished is noticed after about two minutes.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3}


class WireError(OSError):
    """The peer is a stranger, or a message was damaged."""


class Wire:
    """One end of an authenticated connection.

    Args:
        sock: connected socket.
        sending: key of the messages that this end sends.
        receiving: key of the messages that the other end sends.
    """

    def __init__(self, sock: socket.socket, sending: bytes, receiving: bytes) -> None:
        self._sock = sock
        self._sending, self._receiving = sending, receiving
        self._sent = self._received = 0

    @classmethod
    def accept(cls, sock: socket.socket, key: bytes) -> Self:
        """Let a peer that has connected prove that it knows the key, and prove it to the peer."""
        _tune(sock)
        mine = secrets.token_bytes(_NONCE_BYTES)
        sock.sendall(_HELLO + mine)
        answer = _read(sock, _NONCE_BYTES + _CODE_BYTES)
        theirs, proof = answer[:_NONCE_BYTES], answer[_NONCE_BYTES:]
        nonces = mine + theirs
        if not hmac.compare_digest(proof, _code(key, b"client", nonces)):
            raise WireError("the peer does not know the key of the application")
        sock.sendall(_code(key, b"server", nonces))
        return cls(sock, _code(key, b"to client", nonces), _code(key, b"to server", nonces))

    @classmethod
    def connect(cls, sock: socket.socket, key: bytes) -> Self:
        """Prove to the server that this end knows the key, and let the server prove it."""
        _tune(sock)
        if _read(sock, len(_HELLO)) != _HELLO:
            raise WireError("the driver's port belongs to another program, or another version")
        theirs, mine = _read(sock, _NONCE_BYTES), secrets.token_bytes(_NONCE_BYTES)
        nonces = theirs + mine
        sock.sendall(mine + _code(key, b"client", nonces))
        if not hmac.compare_digest(_read(sock, _CODE_BYTES), _code(key, b"server", nonces)):
            raise WireError("the driver does not know the key of the application")
        return cls(sock, _code(key, b"to server", nonces), _code(key, b"to client", nonces))

    def send(self, message: bytes) -> None:
        """Send a message."""
        code = _code(self._sending, _NUMBER.pack(self._sent), message)
        self._sent += 1
        self._sock.sendall(_LENGTH.pack(len(message)) + code + message)

    def receive(self, most: int = MOST_BYTES) -> bytes:
        """Return the next message.

        Args:
            most: largest number of bytes; a longer message ends the connection.
        """
        (length,) = _LENGTH.unpack(_read(self._sock, _LENGTH.size))
        if length > most:
            raise WireError(f"a message of {length:,} bytes is too long; at most {most:,}")
        code, message = _read(self._sock, _CODE_BYTES), _read(self._sock, length)
        if not hmac.compare_digest(
            code, _code(self._receiving, _NUMBER.pack(self._received), message)
        ):
            raise WireError("a message was damaged")
        self._received += 1
        return message


def _code(key: bytes, purpose: bytes, message: bytes) -> bytes:
    return hmac.digest(key, _LENGTH.pack(len(purpose)) + purpose + message, "sha256")


def _read(sock: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = sock.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise EOFError("the peer has closed the connection")
        parts += part
    return bytes(parts)


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):  # not on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
