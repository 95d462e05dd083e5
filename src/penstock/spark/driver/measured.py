"""The metrics of Penstock: their names, labels and units, and how they follow from stats.

The names keep to Prometheus's conventions: base units (seconds, ratios), and `_total` at the end of
the names of counters. Every number is one of `op.stats()` or of `attached.stats()`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.control import InstanceStats, OperatorStats
from penstock.spark.driver.attachment import AttachStats
from penstock.spark.driver.queries import QueryState

T = TypeVar("T")

# Label of the instances beyond the bound, whose numbers are summed.
OTHERS = "other"


@dataclass(frozen=True)
class Metric(Generic[T]):
    """One metric.

    Attributes:
        name: name of the metric; a counter ends with `_total`.
        help: meaning, for people.
        read: function that returns the number; None or NaN if it is unknown.
    """

    name: str
    help: str
    read: Callable[[T], float | None]

    @property
    def is_counter(self) -> bool:
        """Whether the number only grows."""
        return self.name.endswith("_total")


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000


OPERATOR_LABELS = ("operator", "query")
OPERATOR: tuple[Metric[OperatorStats], ...] = (
    Metric("penstock_batches_total", "Batches of the operator.", lambda s: s.batches),
    Metric(
        "penstock_received_records_total",
        "Records that routers have routed or shed.",
        lambda s: s.received,
    ),
    Metric(
        "penstock_processed_records_total",
        "Records that instances have executed without an error.",
        lambda s: s.processed,
    ),
    Metric(
        "penstock_failed_records_total",
        "Records on which the function failed, and that were skipped or kept.",
        lambda s: s.failed,
    ),
    Metric("penstock_shed_records_total", "Records that were not admitted.", lambda s: s.shed),
    Metric(
        "penstock_emitted_records_total",
        "Records that the function has returned.",
        lambda s: s.emitted,
    ),
    Metric(
        "penstock_router_fallbacks_total",
        "Router tasks that decided without the driver.",
        lambda s: s.fallbacks,
    ),
    Metric(
        "penstock_router_seconds_total", "Time spent on routing.", lambda s: _seconds(s.router_ms)
    ),
    Metric(
        "penstock_snapshot_age_seconds",
        "Age of the last snapshot when a router used it.",
        lambda s: _seconds(s.snapshot_age_ms),
    ),
    Metric(
        "penstock_active_instances",
        "Instances of the operator that get records.",
        lambda s: s.active,
    ),
    Metric("penstock_instances", "Instances of the operator.", lambda s: len(s.instances)),
    Metric(
        "penstock_imbalance_ratio",
        "Busiest over mean instance in the last complete batch, minus 1.",
        lambda s: s.imbalance,
    ),
    Metric(
        "penstock_waiting_seconds",
        "Mean time from arrival to execution since the start.",
        lambda s: _seconds(s.waiting_ms),
    ),
    Metric(
        "penstock_target_waiting_seconds",
        "Limit of the waiting time that the shedder holds.",
        lambda s: _seconds(s.target_ms),
    ),
    Metric(
        "penstock_last_batch_waiting_seconds",
        "Mean time from arrival to execution in the last complete batch.",
        lambda s: _seconds(s.last.waiting_ms) if s.last else None,
    ),
    Metric(
        "penstock_last_batch_duration_seconds",
        "Time from the first router to the last report of the last complete batch.",
        lambda s: _seconds(s.last.duration_ms) if s.last else None,
    ),
    Metric(
        "penstock_last_batch_received_records",
        "Records of the last complete batch.",
        lambda s: s.last.received if s.last else None,
    ),
    Metric(
        "penstock_last_batch_fallbacks",
        "Router tasks of the last complete batch that decided without the driver.",
        lambda s: s.last.fallbacks if s.last else None,
    ),
    Metric(
        "penstock_warnings", "Warnings in the stats of the operator.", lambda s: len(s.warnings)
    ),
)

INSTANCE_LABELS = (*OPERATOR_LABELS, "instance")
INSTANCE: tuple[Metric[InstanceStats], ...] = (
    Metric(
        "penstock_instance_records_total",
        "Records that the instance has executed.",
        lambda i: i.records,
    ),
    Metric(
        "penstock_instance_busy_seconds_total",
        "Time that the instance has spent in the function.",
        lambda i: _seconds(i.busy_ms),
    ),
    Metric(
        "penstock_instance_expected_seconds_total",
        "Cost that the policies expected when the records were reported.",
        lambda i: _seconds(i.expected_ms),
    ),
)

EXECUTOR_LABELS = (*OPERATOR_LABELS, "executor")
EXECUTOR: tuple[Metric[float], ...] = (
    Metric(
        "penstock_executor_slowdown_ratio",
        "Time that the executor takes for a record over that of the median executor.",
        lambda slowdown: slowdown,
    ),
)

QUERY_LABELS = ("query",)
QUERY: tuple[Metric[QueryState], ...] = (
    Metric("penstock_query_active", "Whether the query runs.", lambda q: q.active),
    Metric(
        "penstock_query_failed",
        "Whether an error has ended the query, such as a record that failed.",
        lambda q: bool(q.failure),
    ),
)

ATTACHED: tuple[Metric[AttachStats], ...] = (
    Metric("penstock_executors", "Executors that the application has.", lambda a: a.executors),
    Metric("penstock_wanted_executors", "Executors of the last plan.", lambda a: a.wanted),
    Metric(
        "penstock_arriving_records_per_second",
        "Rate at which records arrive.",
        lambda a: a.rate_per_s,
    ),
    Metric("penstock_pending_records", "Records that wait for capacity.", lambda a: a.pending),
    Metric(
        "penstock_unread_records",
        "Records that sources with offsets, such as Kafka, hold unread.",
        lambda a: a.behind,
    ),
    Metric("penstock_lag_seconds", "Age of the oldest unread record.", lambda a: a.lag_s),
    Metric(
        "penstock_load_distance_points",
        "Distance of the worst executor from the mean load; 100 points are one busy executor.",
        lambda a: a.distance,
    ),
    Metric(
        "penstock_moved_key_groups_total",
        "Key groups that have run on the planned executor.",
        lambda a: a.moved,
    ),
    Metric(
        "penstock_unmoved_key_groups_total",
        "Key groups that did not reach the planned executor.",
        lambda a: a.not_moved,
    ),
    Metric("penstock_loop_active", "Whether the attached loop runs.", lambda a: a.running),
    Metric("penstock_loop_failures_total", "Failures of the attached loop.", lambda a: a.failures),
)

# Labels of each metric, for checks of dashboards and alerts.
LABELS: dict[str, tuple[str, ...]] = {
    "penstock_info": ("version",),
    **{one.name: OPERATOR_LABELS for one in OPERATOR},
    **{one.name: INSTANCE_LABELS for one in INSTANCE},
    **{one.name: EXECUTOR_LABELS for one in EXECUTOR},
    **{one.name: QUERY_LABELS for one in QUERY},
    **{one.name: QUERY_LABELS for one in ATTACHED},
}


def known(number: float | None) -> bool:
    """Whether a number is known: an unknown one has no sample."""
    return number is not None and not math.isnan(number)


def bounded_instances(
    instances: tuple[InstanceStats, ...], most: int
) -> Iterator[tuple[str, InstanceStats]]:
    """Yield the label and the counts of each instance; those beyond a bound are summed.

    Example:
        >>> counts = tuple(InstanceStats(records, 1.0, 1.0) for records in (3, 4, 5))
        >>> [(label, one.records) for label, one in bounded_instances(counts, most=1)]
        [('0', 3), ('other', 9)]
    """
    for number, one in enumerate(instances[:most]):
        yield str(number), one
    rest = instances[most:]
    if rest:
        yield (
            OTHERS,
            InstanceStats(
                sum(one.records for one in rest),
                math.fsum(one.busy_ms for one in rest),
                math.fsum(one.expected_ms for one in rest),
            ),
        )


def bounded_slowdowns(slowdowns: dict[str, float], most: int) -> Iterator[tuple[str, float]]:
    """Yield the slowest executors, at most a number of them.

    Example:
        >>> list(bounded_slowdowns({"1": 1.0, "2": 1.7, "3": 1.2}, most=2))
        [('2', 1.7), ('3', 1.2)]
    """
    yield from sorted(slowdowns.items(), key=lambda item: (-item[1], item[0]))[:most]
