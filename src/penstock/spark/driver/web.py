"""A small web server of the driver: on this machine only, or with a token.

The server of Prometheus's client library checks no token, and does not end with Spark. This one
gives both to any WSGI application; that library makes the application and its answers.
"""

import hmac
import ipaddress
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from penstock.errors import PenstockError
from penstock.policies.validation import whole

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger("penstock")

# Longest time until the server notices that Spark has stopped, and longest silence of a client.
_LOOK_S = 0.5
_SILENCE_S = 10.0
_SHORTEST_TOKEN = 16
_NOT_ALLOWED = "send the header Authorization: Bearer TOKEN"


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only.

    Example:
        >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "driver")]
        [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def checked_address(what: str, port: int, host: str, *, token: str | None) -> None:
    """Refuse an address that others can reach without a token.

    Args:
        what: name of the function, for messages.
        port: port to listen on; 0 for any.
        host: address to listen on.
        token: token that clients must send; None if they need none.
    """
    whole("port", port, least=0, most=65_535)
    if not isinstance(host, str) or not host:
        raise PenstockError(f"host must be a name or an address; got {host!r}")
    if token is not None and not _is_token(token):
        raise PenstockError(
            f"token must be text of at least {_SHORTEST_TOKEN} visible ASCII characters, such as "
            "secrets.token_urlsafe() returns; got another value"
        )
    if token is None and not is_loopback(host):
        raise PenstockError(
            f"host {host!r} can be reached from other machines, so {what} needs a token: give "
            "token=secrets.token_urlsafe(), or leave host out"
        )


def _is_token(token: object) -> bool:
    visible = isinstance(token, str) and all("!" <= character <= "~" for character in token)
    return visible and len(str(token)) >= _SHORTEST_TOKEN


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    timeout = _LOOK_S

    def handle_error(self, request: object, client_address: object) -> None:
        """Log that a client went away or stayed silent; the base class would print a traceback."""
        log.debug("a request of %s was not answered", client_address, exc_info=True)


class _Handler(WSGIRequestHandler):
    timeout = _SILENCE_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - as in the base
        """Log nothing: a scrape every few seconds is no news."""


class Served:
    """A page of the driver: made by `penstock.metrics` and `penstock.dashboard`.

    It can be used in a `with` statement. It ends with `close()`, and by itself when Spark is
    stopped.

    Args:
        app: application that answers (WSGI).
        ended: function that returns whether Spark has been stopped. It is asked at least twice a
            second.
        port: port to listen on; 0 for any.
        host: address to listen on.
        token: token that clients must send; None if they need none.
        path: path of the page in `url`.
        public: paths of files without numbers, which need no token.
    """

    def __init__(
        self,
        app: "WSGIApplication",
        ended: Callable[[], bool],
        *,
        port: int,
        host: str,
        token: str | None,
        path: str,
        public: frozenset[str] = frozenset(),
    ) -> None:
        self._ended = ended
        self._server = _listening(host.strip("[]"), port)
        self._server.set_app(_guarded(app, token, public))
        shown = f"[{host.strip('[]')}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_port}{path}"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-web", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the server; a second call does nothing."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=10)

    @property
    def closed(self) -> bool:
        """Whether the server has ended."""
        return not self._thread.is_alive()

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{'closed' if self.closed else 'open'}: {self.url}>"

    def _run(self) -> None:
        with self._server:
            while not self._stop.is_set() and not self._ended():
                self._server.handle_request()  # returns after `timeout` without a request


def _listening(host: str, port: int) -> _Server:
    """Return a server that listens, or refuse an address that cannot be used."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, *_, address = found[0]

        class Server(_Server):
            address_family = family

        return Server((str(address[0]), port), _Handler)
    except OSError as error:
        raise PenstockError(
            f"port {port} of host {host!r} cannot be used ({error.strerror}); choose another one, "
            "or port=0 for any"
        ) from None


def _guarded(
    app: "WSGIApplication", token: str | None, public: frozenset[str]
) -> "WSGIApplication":
    """Return an application that answers permitted requests only, and survives errors."""

    def answer(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        needed = token is not None and environ.get("PATH_INFO") not in public
        if needed and not _has_token(environ, str(token)):
            more = [("WWW-Authenticate", "Bearer")]
            return _refused(start, "401 Unauthorized", _NOT_ALLOWED, more=more)
        if token is None and not _is_meant(environ):
            return _refused(start, "403 Forbidden", "use http://127.0.0.1 or http://localhost")
        try:
            return app(environ, start)
        except Exception:
            log.exception("a page of Penstock could not be made")
            return _refused(start, "500 Internal Server Error", "see the log of the driver")

    return answer


def _has_token(environ: "WSGIEnvironment", token: str) -> bool:
    scheme, _, sent = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
    right = hmac.compare_digest(sent.strip().encode(), token.encode())
    return scheme.lower() == "bearer" and right


def _is_meant(environ: "WSGIEnvironment") -> bool:
    """Whether a request names this machine: a foreign web page cannot, whatever its DNS answers."""
    return is_loopback(urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname or "")


def _refused(
    start: "StartResponse", status: str, text: str, *, more: Iterable[tuple[str, str]] = ()
) -> list[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8"), *more])
    return [f"{text}\n".encode()]
