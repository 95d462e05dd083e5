"""The numbers that the dashboard shows, as JSON."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from pyspark.sql import SparkSession

from penstock import __version__
from penstock.control import Controller, OperatorStats
from penstock.control.history import HOUR_S
from penstock.control.key_names import HOT_KEYS
from penstock.spark.driver.attachment import Attachment, AttachStats
from penstock.spark.driver.control_plane import ControlPlane
from penstock.spark.driver.placement import StatePlaces
from penstock.spark.driver.queries import QueryState
from penstock.spark.driver.sampler import CURVES, BatchNow, Moment, Sampler

Json = dict[str, Any]

# Largest numbers of things that are sent.
_POINTS = 150
_RECENT = 24
_QUERIES = 200
_INSTANCES = 256
_KEY_GROUPS = 1_024
_PLANS = 12
_ALERTS = 50
_KINDS = frozenset({"plan", "outcome", "warning", "failure", "end"})


class Shown:
    """Makes the answers of the dashboard.

    Args:
        spark: any session of the application.
        sampler: sampler that looks at the application.
        show_keys: whether names of hot keys are shown, as far as they are known.
    """

    def __init__(self, spark: SparkSession, sampler: Sampler, *, show_keys: bool = False) -> None:
        self._spark = spark
        self._sampler = sampler
        self._show_keys = show_keys
        context = spark.sparkContext
        self._application = {
            "name": str(context.appName),
            "id": str(context.applicationId),
            "master": str(context.master),
            "spark": str(spark.version),
            "penstock": __version__,
        }

    def answer(self, query: str | None, span_s: float) -> Json:
        """Return everything that a page shows.

        Args:
            query: identity of the query that is shown in detail; None for the first one.
            span_s: length of the curves, in seconds; at most an hour.
        """
        now = self._sampler.now
        since_s = now.time_s - min(max(span_s, 10.0), HOUR_S)
        queries = sorted(now.queries, key=_first_active)[:_QUERIES]
        chosen = next((one for one in queries if one.query == query), None)
        chosen = chosen or next(iter(queries), None)
        alerts = list(_alerts(now))
        return {
            "time_s": now.time_s,
            "application": self._application,
            "queries": [self._row(one, now, alerts, since_s=since_s) for one in queries],
            "alerts": alerts[:_ALERTS],
            "more_alerts": max(0, len(alerts) - _ALERTS),
            "selected": self._details(chosen, now, since_s) if chosen is not None else None,
        }

    def _row(self, state: QueryState, now: Moment, alerts: list[Json], *, since_s: float) -> Json:
        """Return the line of a query in the list."""
        batch = now.batches.get(state.query, BatchNow())
        curves = self._curves(state.query, since_s, _RECENT, names=("duration_ms",))
        row = {
            "id": state.query,
            "name": state.name,
            "state": state_of(state),
            "failure": state.failure,
            "batch": batch.batch if batch.batch >= 0 else None,
            "duration_ms": batch.duration_ms,
            "rate_per_s": batch.rate_per_s,
            "backlog": batch.backlog,
            "latency_ms": batch.latency_ms,
            "alerts": sum(one["query"] == state.query for one in alerts),
        }
        return {**{k: _finite(v) for k, v in row.items()}, "recent": curves.get("duration_ms", [])}

    def _curves(
        self, query: str, since_s: float, most: int, *, names: tuple[str, ...] = CURVES
    ) -> dict[str, list[float | None]]:
        with self._sampler.lock:
            history = self._sampler.histories.get(query)
            return history.thinned(since_s, most, names) if history is not None else {}

    def _details(self, state: QueryState, now: Moment, since_s: float) -> Json:
        """Return everything about one query."""
        controllers = self._controllers(state.query)
        attachment = next((one for one in Attachment.all() if one.identity == state.query), None)
        attached = now.attached.get(state.query)
        return {
            "id": state.query,
            "name": state.name,
            "curves": self._curves(state.query, since_s, _POINTS),
            "operators": [
                _finite(_operator(one, self._hot_keys(controllers.get(one.name))))
                for one in now.operators.get(state.query, [])
            ],
            "attached": _finite(_attached(attached, attachment.places() if attachment else None)),
            "plans": _plans(state, controllers.values(), attachment),
        }

    def _controllers(self, query: str) -> dict[str, Controller]:
        plane = ControlPlane.running(self._spark)
        found = plane.controllers() if plane is not None else []
        return {one.name: one for one in found if one.query == query}

    def _hot_keys(self, controller: Controller | None) -> list[Json]:
        if controller is None:
            return []
        return [
            {
                "key": f"{one.key % 2**64:016x}",
                "name": controller.names.get(one.key) if self._show_keys else None,
                "share": one.share,
                "cost_ms": one.cost_ms,
            }
            for one in controller.hot_keys(HOT_KEYS)
        ]


def state_of(state: QueryState) -> str:
    """Return the state of a query in a word: active, failed or ended."""
    if state.active:
        return "active"
    return "failed" if state.failure else "ended"


def _first_active(state: QueryState) -> int:
    return ("active", "failed", "ended").index(state_of(state))


def _alerts(now: Moment) -> Iterator[Json]:
    """Yield what a person should look at, with the way out."""
    for state in now.queries:
        if state.failure:
            text = f"the query has failed: {state.failure}"
            yield _alert(state, "", text, way_out="query.exception() has the whole error")
        for one in now.operators.get(state.query, []):
            for warning in reversed(one.warnings):
                yield _alert(state, one.name, warning)
        attached = now.attached.get(state.query)
        if attached is not None and attached.failure:
            text = f"the attached loop has failed {attached.failures} times: {attached.failure}"
            way_out = "the query goes on unchanged; the journal has the errors"
            yield _alert(state, "", text, way_out=way_out)


def _alert(state: QueryState, operator: str, text: str, *, way_out: str = "") -> Json:
    return {
        "query": state.query,
        "query_name": state.name,
        "operator": operator,
        "text": text,
        "way_out": way_out,
        "past": not state.active,
    }


def _operator(stats: OperatorStats, hot_keys: list[Json]) -> Json:
    last = stats.last
    return {
        "name": stats.name,
        "state": stats.state,
        "counts": {
            name: getattr(stats, name)
            for name in ("batches", "received", "processed", "shed", "failed", "emitted")
        },
        "fallbacks": stats.fallbacks,
        "fallback_reason": stats.fallback_reason,
        "active": stats.active,
        "instances": len(stats.instances),
        "imbalance": stats.imbalance,
        "last_batch": last.batch if last else None,
        "busy_ms": list(last.busy_ms[:_INSTANCES]) if last else [],
        "records": list(last.records[:_INSTANCES]) if last else [],
        "target_ms": stats.target_ms,
        "waiting_ms": last.waiting_ms if last else None,
        "shed_share": last.shed / last.received if last and last.received else None,
        "slowdowns": stats.slowdowns,
        "hot_keys": hot_keys,
        "warnings": list(reversed(stats.warnings)),
    }


def _attached(stats: AttachStats | None, places: StatePlaces | None) -> Json | None:
    if stats is None:
        return None
    return {**asdict(stats), "state": _places(places) if places is not None else None}


def _places(places: StatePlaces) -> Json:
    """Return the key groups of each executor, and the moves under way."""
    executors = sorted({*places.where.values(), *places.moving.values()}, key=_by_number)
    groups = sorted(places.where)[:_KEY_GROUPS]
    return {
        "executors": [
            {
                "name": name,
                "speed": places.speeds.get(name, 1.0),
                "key_groups": [_named(g) for g in groups if places.where[g] == name],
            }
            for name in executors
        ],
        "moving": [
            {"key_group": _named(g), "source": places.where.get(g), "target": target}
            for g, target in sorted(places.moving.items())
        ],
        "more": max(0, len(places.where) - _KEY_GROUPS),
        "distance": places.distance,
        "expected": places.expected,
    }


def _named(group: tuple[int, int]) -> str:
    return f"{group[0]}/{group[1]}"


def _by_number(executor: str) -> tuple[int, str]:
    return len(executor), executor


def _plans(
    state: QueryState, controllers: Iterable[Controller], attachment: Attachment | None
) -> list[Json]:
    """Return the newest plans and their reasons, the newest first."""
    journals = {id(one.journal): one.journal for one in controllers}
    found = [entry for one in journals.values() for entry in one.newest(_KINDS, _PLANS)]
    if attachment is not None:
        found += attachment.journal.newest(_KINDS, _PLANS)
    mine = [one for one in found if one.get("query") in {state.query, state.name}]
    return [
        {
            "time_s": one["time"],
            "kind": one["kind"],
            "operator": one.get("operator", ""),
            "reason": str(one.get("reason", "")),
            "dry_run": bool(one.get("dry_run", False)),
        }
        for one in sorted(mine, key=lambda one: -float(one["time"]))
    ]


def _finite(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value in which unknown numbers are None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return value
