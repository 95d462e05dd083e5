"""What every scaler must do."""

from collections.abc import Callable

import numpy as np

from penstock.policies.scaling import History, Observed, Scaler, Topology

CHAIN = Topology.linear("first", "second")


def check_limits(scaler: Scaler) -> None:
    """Degrees are within the limits, whatever was seen."""
    for rate in (0.0, 1.0, 1e6):
        plan = scaler.plan(CHAIN, seen(np.full(8, rate), pending=10 * rate))
        for degree in plan.degrees.values():
            assert scaler.min_degree <= degree <= scaler.max_degree


def check_all_operators(scaler: Scaler) -> None:
    """Every operator gets a degree, and every change a reason."""
    history = seen(np.linspace(10, 400, 8), pending=300.0)
    plan = scaler.plan(CHAIN, history)
    assert set(plan.degrees) == set(CHAIN.parents)
    changed = {n for n, one in history.operators.items() if plan.degrees[n] != one.degree}
    assert set(plan.reasons) == changed
    assert plan.reason


def check_same_plan(scaler: Scaler) -> None:
    """The same history gives the same plan."""
    history = seen(np.linspace(10, 400, 8), pending=30.0)
    assert scaler.plan(CHAIN, history) == scaler.clone().plan(CHAIN, history)


def check_nothing_seen(scaler: Scaler) -> None:
    """Before anything was seen, nothing changes but to the limits."""
    plan = scaler.plan(CHAIN, seen(np.empty(0)))
    assert all(scaler.min_degree <= degree <= scaler.max_degree for degree in plan.degrees.values())


def check_constant_load(scaler: Scaler) -> None:
    """A constant load comes to rest."""
    degrees = dict.fromkeys(CHAIN.parents, 1)
    plans = []
    for periods in range(1, 30):
        history = seen(np.full(periods, 300.0), degrees=degrees)
        degrees = dict(scaler.plan(CHAIN, history).degrees)
        plans.append(degrees)
    assert plans[-1] == plans[-2] == plans[-10]


def check_inputs_kept(scaler: Scaler) -> None:
    """Inputs are not changed, and may be read-only."""
    rates = np.linspace(10, 400, 8)
    rates.flags.writeable = False
    scaler.plan(CHAIN, seen(rates))


CHECKS: list[Callable[..., None]] = [
    check_limits,
    check_all_operators,
    check_same_plan,
    check_nothing_seen,
    check_constant_load,
    check_inputs_kept,
]


def seen(
    received: "np.typing.NDArray[np.float64]",
    pending: float = 0.0,
    degrees: dict[str, int] | None = None,
) -> History:
    """Return a history in which both operators get these records, of 20 ms each."""
    cost_ms = np.full(received.size, 20.0)
    columns = received, received, received, cost_ms
    return History(
        10.0,
        {
            name: Observed(*columns, pending=pending, degree=(degrees or {}).get(name, 2))
            for name in CHAIN.parents
        },
    )
