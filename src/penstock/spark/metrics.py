"""`penstock.metrics`: the numbers of all operators, for Prometheus."""

from penstock.extras import needs
from penstock.policies.validation import whole
from penstock.spark import internals
from penstock.spark.driver.overview import overview
from penstock.spark.driver.sessions import running_session
from penstock.spark.driver.web import Served, checked_address


def metrics(
    port: int = 0,
    host: str = "127.0.0.1",
    *,
    token: str | None = None,
    max_instances: int = 64,
) -> Served:
    """Serve the numbers of all operators and attachments of the application, for Prometheus.

    The numbers are those of `op.stats()` and `attached.stats()` at the moment of a scrape, in
    Prometheus's text format. Nothing is kept between two scrapes, and no global registry is used.
    The server ends with `close()`, and by itself when the Spark session is stopped.

    Args:
        port: port to listen on, from 0 to 65535; 0 for any free one.
        host: address to listen on. An address that other machines reach needs a token.
        token: token that a scrape must send as `Authorization: Bearer TOKEN`, at least 16
            characters; None permits requests from this machine without one.
        max_instances: largest number of instances, and of executors, of an operator that get
            labels of their own, >= 1. The numbers of further instances are summed under
            `instance="other"`; of executors the slowest ones are shown.

    Returns:
        An object with `url` and `close()`, which also works in a `with` statement.

    Raises:
        PenstockError: if no Spark session runs, or if the address cannot be used.

    Example:
        >>> metrics(host="0.0.0.0")
        Traceback (most recent call last):
        ...
        penstock.errors.PenstockError: host '0.0.0.0' can be reached from other machines, so ...
    """
    needs("prometheus_client", extra="metrics", what="metrics()")
    from prometheus_client import CollectorRegistry, make_wsgi_app  # noqa: PLC0415 - an extra

    from penstock.spark.driver.collector import OverviewCollector  # noqa: PLC0415

    checked_address("metrics()", port, host, token=token)
    whole("max_instances", max_instances, least=1)
    spark = running_session("metrics()")
    registry = CollectorRegistry()
    registry.register(OverviewCollector(lambda: overview(spark), max_instances))
    return Served(
        make_wsgi_app(registry),
        lambda: internals.is_stopped(spark),
        port=port,
        host=host,
        token=token,
        path="/metrics",
    )
