"""The web server of the driver: who may ask, and how it ends."""

import socket
import threading
import time
import urllib.error
import urllib.request

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.spark.driver.web import Served

TEXT = "all is well"
TOKEN = "0123456789abcdef"  # noqa: S105 - of this test only


def app(environ, start):
    if environ["PATH_INFO"] == "/broken":
        raise ValueError("of an application")
    start("200 OK", [("Content-Type", "text/plain")])
    return [TEXT.encode()]


def served_here(ended=lambda: False, *, port=0, host="127.0.0.1", token=None):
    return Served(app, ended, port=port, host=host, token=token, path="/metrics")


def get(url, **headers):
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return answer.read().decode()


def refused(url, **headers):
    with pytest.raises(urllib.error.HTTPError) as raised:
        get(url, **headers)
    raised.value.close()
    return raised.value.code


def test_it_ends_with_spark():
    stopped = threading.Event()
    served = served_here(stopped.is_set)
    assert get(served.url) == TEXT
    stopped.set()
    served._thread.join(30)
    assert served.closed
    with pytest.raises(urllib.error.URLError):
        get(served.url)


def test_an_error_of_the_application_is_an_answer(caplog):
    with served_here() as served:
        assert refused(served.url.replace("/metrics", "/broken")) == 500
        assert get(served.url) == TEXT
    assert sum("could not be made" in one.message for one in caplog.records) == 1


def test_two_servers_at_once_and_their_ends():
    first, second = served_here(), served_here(host="localhost")
    assert first.url != second.url
    assert first.url.startswith("http://127.0.0.1:")
    assert first.url.endswith("/metrics")
    assert repr(first) == f"<open: {first.url}>"
    assert get(first.url) == TEXT
    first.close()
    first.close()
    assert (first.closed, repr(first)) == (True, f"<closed: {first.url}>")
    with pytest.raises(urllib.error.URLError):
        get(first.url)
    assert get(second.url) == TEXT
    second.close()


def test_the_token_is_needed():
    with served_here(token=TOKEN) as served:
        assert refused(served.url) == 401
        for wrong in ("", "Bearer", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN):
            assert refused(served.url, Authorization=wrong) == 401
        assert get(served.url, Authorization=f"Bearer {TOKEN}") == TEXT
        assert get(served.url, Authorization=f"bearer {TOKEN}") == TEXT


def test_without_a_token_requests_must_name_this_machine():
    with served_here() as served:
        assert refused(served.url, Host="example.com") == 403
        assert refused(served.url, Host="127.0.0.1.example.com") == 403
        assert get(served.url, Host="localhost:9090") == TEXT


def test_a_silent_client_holds_up_nobody():
    with served_here() as served:
        port = int(served.url.rsplit(":", 1)[1].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port)):
            start = time.monotonic()
            assert get(served.url) == TEXT
            assert time.monotonic() - start < 9  # the client's silence may last longer


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"host": "10.0.0.1"}, "can be reached from other machines, so metrics.. needs a token"),
        ({"host": "::"}, "can be reached from other machines"),
        ({"host": ""}, "host must be a name or an address; got ''"),
        ({"port": -1}, "port must be"),
        ({"port": 70_000}, "port must be"),
        ({"token": "short"}, "token must be text of at least 16 visible ASCII characters"),
        ({"token": "with a space in the middle"}, "token must be"),
        ({"token": 16 * "\n"}, "token must be"),
        ({"max_instances": 0}, "max_instances must be"),
    ],
    ids=["any", "any6", "empty", "negative", "high", "short", "space", "lines", "none"],
)
def test_bad_arguments_are_refused(wrong, message):
    with pytest.raises(PenstockError, match=message) as raised:
        penstock.metrics(**wrong)
    if "token" in wrong:
        assert wrong["token"] not in str(raised.value)


def test_a_port_that_is_taken_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PenstockError, match=f"port {port} of host '127.0.0.1' cannot be used"):
            served_here(port=port)
