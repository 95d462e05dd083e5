r"""The Greedy Online Scheduler of POSG: every record goes to the instance that will be free first.

The grouping keeps a finish clock $C_i$ for every instance: the time when all its records are done.

$$i = \arg\min_j C_j, \qquad C_i \leftarrow \max(C_i, now) + s_i \hat w_t$$

with the record's estimated cost $\hat w_t$ and the instance's slowdown $s_i$. If the costs are
exact its makespan is at most $2 - 1/k$ times the optimum (POSG, Theorem 4.2; Graham, 1966).
The maximum accounts for idle time, which the paper's cumulated costs ignore.
"""

from penstock.policies.kernels import Float64, Int32, Int64, kernel


@kernel
def least_loaded(loads: Float64 | Int64) -> int:
    """Return the index of the smallest load (or clock), the first one of equals."""
    best = 0
    for instance in range(1, loads.size):
        if loads[instance] < loads[best]:
            best = instance
    return best


@kernel
def chosen_by(turn: int, loads: Float64 | Int64) -> tuple[int, int]:
    """Return the instance whose turn it is and the next turn; if `turn` is -1, the least loaded."""
    if turn < 0:
        return least_loaded(loads), turn
    return turn, turn + 1 if turn + 1 < loads.size else 0


@kernel
def give(chosen: int, cost_ms: float, now_ms: float, clock_ms: Float64, slowdown: Float64) -> None:
    """Move on the clock of the instance that gets a record."""
    clock_ms[chosen] = max(clock_ms[chosen], now_ms) + slowdown[chosen] * cost_ms


@kernel
def assign(
    costs_ms: Float64, now_ms: Float64, clock_ms: Float64, slowdown: Float64, out: Int32
) -> None:
    """Assign records of known costs to instances.

    Args:
        costs_ms: cost of each record on an instance with slowdown 1.
        now_ms: when each record is assigned.
        clock_ms: finish clock of each instance, moved on in place.
        slowdown: slowdown of each instance.
        out: instance of each record, filled in.
    """
    for i in range(costs_ms.size):
        out[i] = least_loaded(clock_ms)
        give(out[i], costs_ms[i], now_ms[i], clock_ms, slowdown)
