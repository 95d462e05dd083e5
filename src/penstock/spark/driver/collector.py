"""The collector that Prometheus's client library asks at each scrape."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from penstock import __version__
from penstock.spark.driver.measured import (
    ATTACHED,
    EXECUTOR,
    EXECUTOR_LABELS,
    INSTANCE,
    INSTANCE_LABELS,
    OPERATOR,
    OPERATOR_LABELS,
    QUERY,
    QUERY_LABELS,
    Metric,
    bounded_instances,
    bounded_slowdowns,
    known,
)
from penstock.spark.driver.overview import Overview

T = TypeVar("T")


class OverviewCollector(Collector):
    """Reads all numbers when they are asked for; keeps none.

    Args:
        look: function that returns the present overview of an application.
        max_instances: largest number of instances, and of executors, of an operator that get
            labels of their own.
    """

    def __init__(self, look: Callable[[], Overview], max_instances: int) -> None:
        self._look = look
        self._most = max_instances

    def describe(self) -> list[Family]:
        """Return nothing: a registry then does not ask for numbers when it is made."""
        return []

    def collect(self) -> Iterator[Family]:
        """Yield all metrics. Called by the client library, on the thread of a request."""
        now, most = self._look(), self._most
        named = [((one.name, one.query_name), one) for one in now.operators]
        instances = [
            ((*labels, label), counts)
            for labels, one in named
            for label, counts in bounded_instances(one.instances, most)
        ]
        slowdowns = [
            ((*labels, executor), slowdown)
            for labels, one in named
            for executor, slowdown in bounded_slowdowns(one.slowdowns, most)
        ]
        yield InfoMetricFamily("penstock", "Version of Penstock.", {"version": __version__})
        yield from _families(OPERATOR, OPERATOR_LABELS, named)
        yield from _families(INSTANCE, INSTANCE_LABELS, instances)
        yield from _families(EXECUTOR, EXECUTOR_LABELS, slowdowns)
        yield from _families(QUERY, QUERY_LABELS, [((one.name,), one) for one in now.queries])
        yield from _families(ATTACHED, QUERY_LABELS, [((one.query,), one) for one in now.attached])


def _families(
    metrics: Iterable[Metric[T]],
    labels: tuple[str, ...],
    rows: Sequence[tuple[tuple[str, ...], T]],
) -> Iterator[Family]:
    for metric in metrics:
        kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
        family = kind(metric.name.removesuffix("_total"), metric.help, labels=labels)
        for values, row in rows:
            number = metric.read(row)
            if number is not None and known(number):
                family.add_metric(values, number)
        yield family
