"""`penstock.dashboard`: a live page of all queries, operators and attachments."""

from penstock.spark import internals
from penstock.spark.driver.control_plane import ControlPlane
from penstock.spark.driver.pages import PUBLIC, pages
from penstock.spark.driver.sampler import Sampler
from penstock.spark.driver.sessions import running_session
from penstock.spark.driver.shown import Shown
from penstock.spark.driver.web import Served, checked_address


class Dashboard(Served):
    """The live page of an application: made by `penstock.dashboard`.

    It has a `url`, and ends with `close()`, or by itself when Spark is stopped.
    """

    _sampler: Sampler
    _plane: ControlPlane | None = None

    def close(self) -> None:
        """End the server and the sampler; a second call does nothing."""
        if self._plane is not None:
            self._plane.name_readers.discard(self)
        self._sampler.close()
        super().close()


def dashboard(
    port: int = 0,
    host: str = "127.0.0.1",
    *,
    token: str | None = None,
    show_keys: bool = False,
) -> Dashboard:
    """Serve a live page of all queries, operators and attachments of the application.

    The page shows the numbers of `op.stats()` and `attached.stats()`, Spark's own progress of each
    query, and the newest plans with their reasons. It is updated once a second, keeps an hour, and
    changes nothing. It needs no internet. The server ends with `close()`, and by itself when the
    Spark session is stopped.

    Args:
        port: port to listen on, from 0 to 65535; 0 for any free one.
        host: address to listen on. An address that other machines reach needs a token.
        token: token that the page must know to get numbers, at least 16 characters; open
            `url + "#token=" + token`, or type it in. None permits requests from this machine
            without one.
        show_keys: whether hot keys are shown by their names. Executors then report the names of
            the few hottest keys, from the next batch on; otherwise names never leave them, and
            the page shows hashes.

    Returns:
        An object with `url` and `close()`, which also works in a `with` statement.

    Raises:
        PenstockError: if no Spark session runs, or if the address cannot be used.

    Example:
        >>> dashboard(host="0.0.0.0")
        Traceback (most recent call last):
        ...
        penstock.errors.PenstockError: host '0.0.0.0' can be reached from other machines, so ...
    """
    checked_address("dashboard()", port, host, token=token)
    spark = running_session("dashboard()")
    sampler = Sampler(spark, lambda: internals.is_stopped(spark))
    served = Dashboard(
        pages(Shown(spark, sampler, show_keys=show_keys).answer),
        lambda: internals.is_stopped(spark),
        port=port,
        host=host,
        token=token,
        path="/",
        public=PUBLIC,
    )
    served._sampler = sampler
    if show_keys:
        served._plane = ControlPlane.of(spark)
        served._plane.name_readers.add(served)
    sampler.begin()
    return served
