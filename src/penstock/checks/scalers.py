"""Checks of every scaler."""

from collections.abc import Callable

import numpy as np

from penstock.checks.common import name_of
from penstock.policies.kernels import Float64
from penstock.policies.scaling import History, Observed, ScalePlan, Scaler, Topology

CHAIN = Topology.linear("first", "second")


def check_limits(scaler: Scaler) -> None:
    """Degrees are within the limits for any load."""
    for rate in (0.0, 1.0, 1e6):
        _refuse_beyond_limits(scaler, scaler.plan(CHAIN, seen(np.full(8, rate), 10 * rate)))


def _refuse_beyond_limits(scaler: Scaler, plan: ScalePlan) -> None:
    for name, degree in plan.degrees.items():
        assert scaler.min_degree <= degree <= scaler.max_degree, (
            f"{name_of(scaler)} must plan degrees from {scaler.min_degree} to {scaler.max_degree}; "
            f"got {degree} for {name!r}"
        )


def check_all_operators(scaler: Scaler) -> None:
    """Every operator gets a degree, and every change a reason."""
    history = seen(np.linspace(10, 400, 8), pending=300.0)
    plan = scaler.plan(CHAIN, history)
    label = name_of(scaler)
    assert set(plan.degrees) == set(CHAIN.parents), (
        f"{label} must plan a degree for each of {list(CHAIN.parents)}; got {list(plan.degrees)}"
    )
    changed = {n for n, one in history.operators.items() if plan.degrees[n] != one.degree}
    assert set(plan.reasons) == changed, (
        f"{label} must give a reason for each operator that changes, {sorted(changed)}; "
        f"got reasons for {sorted(plan.reasons)}"
    )
    assert plan.reason, f"the plan of {label} must have a reason; got an empty text"


def check_same_plan(scaler: Scaler) -> None:
    """The same history gives the same plan."""
    history = seen(np.linspace(10, 400, 8), pending=30.0)
    assert scaler.plan(CHAIN, history) == scaler.clone().plan(CHAIN, history), (
        f"{name_of(scaler)} must plan the same degrees for the same history; two plans differ"
    )


def check_nothing_seen(scaler: Scaler) -> None:
    """Degrees are within the limits before the first period."""
    _refuse_beyond_limits(scaler, scaler.plan(CHAIN, seen(np.empty(0))))


def check_constant_load(scaler: Scaler) -> None:
    """Degrees come to rest under a constant load."""
    degrees = dict.fromkeys(CHAIN.parents, 1)
    plans = []
    for periods in range(1, 30):
        history = seen(np.full(periods, 300.0), degrees=degrees)
        degrees = dict(scaler.plan(CHAIN, history).degrees)
        plans.append(degrees)
    assert plans[-1] == plans[-2] == plans[-10], (
        f"{name_of(scaler)} must come to rest under a constant load; "
        f"its degrees still change after {len(plans)} periods: "
        f"{plans[-10]}, {plans[-2]}, {plans[-1]}"
    )


def check_inputs_kept(scaler: Scaler) -> None:
    """Inputs are not changed, and may be read-only."""
    rates = np.linspace(10, 400, 8)
    rates.flags.writeable = False
    try:
        scaler.plan(CHAIN, seen(rates))
    except ValueError as error:
        raise AssertionError(
            f"{name_of(scaler)} must accept read-only arrays and not change them; it raised {error}"
        ) from error


CHECKS: list[Callable[..., None]] = [
    check_limits,
    check_all_operators,
    check_same_plan,
    check_nothing_seen,
    check_constant_load,
    check_inputs_kept,
]


def seen(received: Float64, pending: float = 0.0, degrees: dict[str, int] | None = None) -> History:
    """Return a history in which both operators get these records, of 20 ms each."""
    operators = {
        name: Observed(
            received=received,
            processed=received,
            emitted=received,
            cost_ms=np.full(received.size, 20.0),
            pending=pending,
            degree=(degrees or {}).get(name, 2),
        )
        for name in CHAIN.parents
    }
    return History(10.0, operators)
