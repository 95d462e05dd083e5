"""Factoring: large tasks first, then ever smaller ones that idle instances take."""

import numpy as np
import numpy.typing as npt

from penstock.policies.codec import Arrays
from penstock.policies.feedback import Feedback
from penstock.policies.grouping.base import checked, idle_clocks, order_by_length
from penstock.policies.grouping.divisions import Division, Records, Rehearsal, divide, rehearse
from penstock.policies.grouping.proactive import Proactive
from penstock.policies.kernels import Float64, Int32, Int64
from penstock.policies.validation import at_least_zero, whole

# Divisions that are rehearsed: the share of the work in tasks of equal size, and the number of
# these tasks for each instance. A share of 1 means no tail.
_CANDIDATES = (
    (1.0, 1),
    *((share, 1) for share in (0.9, 0.75, 0.6, 0.45, 0.3, 0.2)),
    *((share, 2) for share in (0.7, 0.5, 0.4)),
    *((share, 3) for share in (0.7, 0.5)),
    (0.6, 4),
)
# Random costs that a division is rehearsed with.
_DRAWS = 16
# Largest coefficient of variation of a record in a rehearsal.
_WILDEST = 5.0
# Work of the smallest task, in multiples of the overhead of a task.
_LEAST = 2.0
# Overhead of a task before any was measured, and the weight of a measurement. One above a multiple
# of the estimate is cut, because the first task of a Python worker takes seconds.
_OVERHEAD_MS = 10.0
_WEIGHT, _BELIEVED = 0.05, 5.0
# Tasks of the tail for each instance; with many instances there are fewer. Instances with several
# servers need fewer, too: each of their tasks is a queue of its own, and empty tasks cost time.
_PER_INSTANCE, _PER_SEVERAL, _MANY = 5, 2, 256
_MOST_TAIL = 100_000


class Factoring(Proactive):
    r"""Long and uncertain records in large tasks that start first, the rest in ever smaller tasks.

    An engine of micro-batches starts the tasks of a batch in the order of their numbers, each one
    on the instance that is free first. So whatever the estimates missed, and however unequal
    workers are, idle instances take the next task. Records are taken in the order of their possible
    cost, expected cost plus standard deviation, the longest first:

    1. The first $r k$ tasks share a part $f$ of the work $W$, balanced by longest record first.
    2. The sizes of the tasks after them fall linearly to twice the overhead $o$ of a task:

    $$w_j = w_1 - (w_1 - 2 o) \frac{j - 1}{n - 1}, \qquad \sum_{j=1}^n w_j = (1 - f) W$$

    with $w_1$ about the size $f W / r k$ of a first task. Small tasks absorb large errors, and cost
    more overhead. Each router rehearses some pairs of $f$ and $r$, and takes the one with the
    shortest mean duration of the batch. It draws random costs with the known means and spreads. It
    schedules the tasks on slots of the known speeds, and adds the known overhead of each task. If
    all costs are known and all workers are equal, everything goes to one task per instance.

    Costs, their spread within a key, speeds of workers and the overhead of a task are learnt from
    reports. Where records arrive one by one, it decides as POSG does.

    Args:
        instances: number of instances k that execute tasks, >= 1.
        tail: largest number of tasks after the first k, >= 0; None for five per instance, two
            with several servers, and fewer with many instances.
        caution: factor by which costs may differ more than is known, >= 0.
        capacity: entries of the cost model of an instance, >= 1, 32 bytes each. The grouping's
            model has `instances` times as many, at most 65,535.
        half_life: number of records after which a measurement counts half, > 0; may be infinite.
        drift: expected change of a slowdown within 1,000 records of its worker (standard
            deviation), >= 0.
        seed: seed of the rehearsals, and of the hash function of the cost model's index.
        sized: whether costs follow the size of records (see `costs.BySize`), in 32 more bytes an
            entry.
        servers: number of records c that an instance executes at a time, >= 1. A batch is divided
            as for k c instances, and c tasks in a row become one: its servers share their records.
        together: whether instances measure whole calls of a function, and not single records (see
            `costs.ByCall`), in 16 more bytes an entry; ignored if `sized`.

    Example:
        >>> from penstock.policies.costs import SpaceSaving
        >>> grouping = Factoring(instances=2, tail=4)
        >>> measured = SpaceSaving(capacity=240, spread=True)
        >>> measured.update([1, 1, 2, 2], [200.0, 900.0, 40.0, 60.0])
        >>> grouping.observe(Feedback(0, measured))
        >>> grouping.tasks
        6
        >>> grouping.begin(router=0)
        >>> grouping.route_together([2, 2, 1, 2, 2, 2, 2, 1, 2, 2])
        array([2, 2, 0, 2, 2, 3, 3, 1, 3, 4], dtype=int32)

    References:
        S. F. Hummel, E. Schonberg and L. E. Flynn, "Factoring: A Method for Scheduling Parallel
        Loops", Communications of the ACM 35(8), 1992; T. H. Tzen and L. M. Ni, "Trapezoid
        Self-Scheduling", IEEE Transactions on Parallel and Distributed Systems 4(1), 1993.

    Deviations:
        The papers know nothing about single iterations. Here costs are estimated, so the longest
        records come first, and the size of the first tasks follows from a rehearsal. All sizes are
        decided before the batch starts: an engine such as Spark cannot change them any more.
    """

    name = "factoring"
    _spread = True

    def __init__(
        self,
        instances: int,
        tail: int | None = None,
        caution: float = 1.25,
        capacity: int = 240,
        half_life: float = 8192,
        drift: float = 0.02,
        seed: int = 0,
        sized: bool = False,
        servers: int = 1,
        together: bool = False,
    ) -> None:
        self.tail = None if tail is None else whole("tail", tail, least=0, most=_MOST_TAIL)
        self.caution = at_least_zero("caution", caution)
        super().__init__(
            instances,
            capacity=capacity,
            half_life=half_life,
            drift=drift,
            seed=seed,
            sized=sized,
            servers=servers,
            together=together,
        )
        self._overhead_ms = np.full(1, _OVERHEAD_MS)
        self._expected = float("nan")
        self._router = 0
        self._chosen: tuple[float, int] | None = None
        self._loads_ms = np.zeros(0)

    @property
    def tasks(self) -> int:
        """Tasks of all instances, and those of the tail."""
        k = self.instances
        each = _PER_INSTANCE if self.servers == 1 else _PER_SEVERAL
        tail = min(each * k, _MANY + k) if self.tail is None else self.tail
        return k + tail

    def expect(self, records: float) -> None:
        """Note the size of the batch: sizes of tasks follow from the work of the whole batch."""
        self._expected = records

    def begin(self, router: int) -> None:
        """Set all clocks to idle; the first division of the batch is rehearsed again."""
        super().begin(router)
        self._router = router
        self._chosen = None

    def route_together(self, keys: npt.ArrayLike, sizes: npt.ArrayLike | None = None) -> Int32:
        """Give long and uncertain records to the first tasks, and the rest to smaller ones."""
        array, _ = checked(keys, None)
        out = np.empty(array.size, dtype=np.int32)
        if not array.size:
            return out
        costs_ms, spread_ms = self._costs_and_spread(array, sizes)
        mean_load_ms = float(costs_ms.sum()) / self._server_ms.size
        order = order_by_length(costs_ms + spread_ms, mean_load_ms)
        records = Records(costs_ms, np.arange(array.size) if order is None else order)
        share = self._share(array.size)
        if self._chosen is None:
            self._chosen = self._rehearsed(records, spread_ms, share)
            equal = self._chosen[1] * self._server_ms.size
            self._loads_ms = idle_clocks(equal, self._router * self.servers)
        divide(records, self._division(self._chosen, share), self._loads_ms, out)
        return out if self.servers == 1 else out // np.int32(self.servers)

    def possible_ms(
        self, keys: npt.ArrayLike, sizes: npt.ArrayLike | None = None
    ) -> Float64 | None:
        """Return expected cost plus standard deviation; None before anything is known."""
        if not self.running:
            return None
        costs_ms, spread_ms = self._costs_and_spread(checked(keys, None)[0], sizes)
        return costs_ms + spread_ms

    def _try(self, keys: Int64) -> None:
        self._overhead_ms[0] = 0.0  # a tail always pays, so that rehearsals are compiled, too
        super()._try(keys)

    def _costs_and_spread(
        self, keys: Int64, sizes: npt.ArrayLike | None
    ) -> tuple[Float64, Float64]:
        """Return costs of records and their spread; equal ones before anything is known."""
        if not self.running:
            unknown_ms = np.full(keys.size, float(self._overhead_ms[0]))
            return unknown_ms, unknown_ms
        spread_ms = self.caution * self._costs.spread_ms(keys, sizes)
        return self._costs.estimate(keys, sizes), spread_ms

    def _share(self, records: int) -> float:
        """Return the share of some records in the whole batch."""
        return 1.0 if np.isnan(self._expected) else records / max(self._expected, records)

    def _division(self, candidate: tuple[float, int], share: float) -> Division:
        first, rounds = candidate
        equal = rounds * self._server_ms.size
        least_ms = _LEAST * float(self._overhead_ms[0]) * share
        return Division(first, equal, least_ms, self.tasks * self.servers - equal)

    def _rehearsed(self, records: Records, spread_ms: Float64, share: float) -> tuple[float, int]:
        """Return the division with which a batch is shortest on average."""
        overhead_ms = float(self._overhead_ms[0])
        mean_work_ms = float(records.costs_ms.sum()) / share / self._server_ms.size
        if self.tasks == self.instances or mean_work_ms < _LEAST * overhead_ms:
            return _CANDIDATES[0]
        rng = np.random.default_rng([self.seed, self._router])
        rehearsal = Rehearsal(
            drawn_ms=_drawn(records.costs_ms, spread_ms, rng),
            slowdown=self._speeds(rng),
            overhead_ms=overhead_ms,
            routers=max(1, round(1 / share)),
            servers=self.servers,
        )
        known = [one for one in _CANDIDATES if one[1] * self.instances < self.tasks]
        durations_ms = [rehearse(records, self._division(one, share), rehearsal) for one in known]
        return known[int(np.argmin(durations_ms))]

    def _speeds(self, rng: np.random.Generator) -> Float64:
        """Return the slowdown of each slot, in another order for each draw."""
        heard = self._costs.heard
        known = self._costs.slowdown[heard] if heard.any() else np.ones(1)
        slots = np.resize(known, self.instances)
        drawn: Float64 = rng.permuted(np.tile(slots, (_DRAWS, 1)), axis=1)
        return drawn

    def slowdown_of(self, worker: int) -> float:
        """Return the learnt slowdown of a worker; NaN before its first message."""
        known = worker < self.instances and self._costs.heard[worker]
        return float(self._costs.slowdown[worker]) if known else float("nan")

    def _worker(self, feedback: Feedback) -> int:
        worker = feedback.instance if feedback.worker is None else feedback.worker
        return worker % self.instances

    def _observe(self, feedback: Feedback) -> None:
        """Learn measured costs, the speed of the worker, and the overhead of a task."""
        super()._observe(feedback)
        self._running = bool(self._costs.heard.any())
        if feedback.overhead_ms is not None:
            found_ms = min(max(feedback.overhead_ms, 0.0), _BELIEVED * self._overhead_ms[0])
            self._overhead_ms[0] += _WEIGHT * (found_ms - self._overhead_ms[0])

    def resize(self, instances: int) -> None:
        """Keep the learnt costs; new workers have average speed."""
        super().resize(instances)
        self._running = bool(self._costs.heard.any())

    def _state(self) -> Arrays:
        return {**super()._state(), "overhead_ms": self._overhead_ms}

    def _load(self, state: Arrays) -> None:
        super()._load(state)
        self._running = bool(self._costs.heard.any())


def _drawn(costs_ms: Float64, spread_ms: Float64, rng: np.random.Generator) -> Float64:
    """Draw lognormal costs with these means and standard deviations, `_DRAWS` of each record."""
    variation = np.divide(spread_ms, costs_ms, out=np.zeros(costs_ms.size), where=costs_ms > 0)
    sigma2 = np.log1p(np.minimum(variation, _WILDEST) ** 2)
    normal = rng.standard_normal((_DRAWS, costs_ms.size))
    drawn: Float64 = costs_ms * np.exp(np.sqrt(sigma2) * normal - sigma2 / 2)
    return drawn
