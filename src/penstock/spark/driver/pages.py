"""The web application of the dashboard: a few static files, and the numbers as JSON."""

import json
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

# Files of the page and their types, by path.
_FILES = {
    "/": ("index.html", "text/html"),
    "/style.css": ("style.css", "text/css"),
    "/app.js": ("app.js", "text/javascript"),
    "/charts.js": ("charts.js", "text/javascript"),
    "/details.js": ("details.js", "text/javascript"),
    "/elements.js": ("elements.js", "text/javascript"),
}
_DATA = "/data"
_PLAIN = "text/plain"
# The page loads its own files only, and nothing can frame it.
_HEADERS = [
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
]

PUBLIC = frozenset(_FILES)


def pages(answer: Callable[[str | None, float], dict[str, Any]]) -> "WSGIApplication":
    """Return the web application. It only reads.

    Args:
        answer: function that returns the numbers, given the chosen query and the length of the
            curves in seconds.
    """
    folder = files("penstock.spark.driver") / "page"
    texts = {path: (folder / name).read_bytes() for path, (name, _) in _FILES.items()}

    def app(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        path = str(environ.get("PATH_INFO", "/"))
        if environ.get("REQUEST_METHOD") not in {"GET", "HEAD"}:
            return _sent(start, "405 Method Not Allowed", kind=_PLAIN, body=b"it only reads\n")
        if path in texts:
            return _sent(start, "200 OK", kind=_FILES[path][1], body=texts[path])
        if path != _DATA:
            return _sent(start, "404 Not Found", kind=_PLAIN, body=b"no such page\n")
        asked = parse_qs(str(environ.get("QUERY_STRING", "")), keep_blank_values=True)
        numbers = answer(asked.get("query", [None])[0], _span_s(asked.get("span", ["900"])[0]))
        body = json.dumps(numbers, allow_nan=False, separators=(",", ":")).encode()
        return _sent(start, "200 OK", kind="application/json", body=body)

    return app


def _span_s(text: str) -> float:
    return float(text) if text.isdecimal() and len(text) < 6 else 900.0


def _sent(start: "StartResponse", status: str, *, kind: str, body: bytes) -> list[bytes]:
    start(status, [("Content-Type", f"{kind}; charset=utf-8"), *_HEADERS])
    return [body]
