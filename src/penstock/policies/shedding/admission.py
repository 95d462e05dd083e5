r"""Admission by waiting time, which all shedders with a target share.

Admission keeps a finish clock $C$: the time at which all admitted records will be done. A record
that arrives at $a$ and is decided about at $now$ would wait

$$\hat q = \max(C, now) - a$$

It is shed if the mean waiting time of the last records, with $\hat q$, would exceed the target
$\tau$. Older records fade away (see `Target`). Otherwise the clock moves on by the expected cost
of the record, shared by $k$ instances:

$$C \leftarrow \max(C, now) + \hat w / k$$

A record that would wait for at most half of the target is always admitted. It can only lower the
average, so that long waiting times of the past never starve the stream.

**Cheap records first.** Every record adds its own waiting time to the average, but an expensive
one delays all records after it. With `cheap`, a record is shed if its cost exceeds a threshold.
The threshold falls with the queue, and follows the room $R$ that is left to the target. The room is
the target times the number of records, minus their waiting times. It is a critically damped
proportional-integral controller whose speed follows the target:

$$\hat w > \tfrac12 \bar w + \frac{b^2}{4} R - b\,(\hat q - \tau), \qquad
  b = \min(0.6\,\bar w / \tau, 0.5)$$
"""

import numpy as np

from penstock.policies.codec import Arrays
from penstock.policies.kernels import Bool, Int64
from penstock.policies.shedding.finish_clock import (
    ADMITTED,
    CLOCK,
    COLUMNS,
    COUNT,
    DONE,
    NUMBERS,
    PLANNED,
    SHIFT,
    SUMS,
    WAITED,
    Memory,
    Offer,
    Rules,
    correct,
    decide,
    room_left,
)
from penstock.policies.shedding.targets import Target

# Steps of the search for the highest cost that can be admitted.
_HALVINGS = 20


class Admission:
    """Admits records as long as a target holds.

    Args:
        target: limit of the waiting time.
        cheap: whether expensive records are shed first.
        logged: number of admitted records that are remembered. They are replayed when the clock
            turns out to be wrong.
    """

    def __init__(self, target: Target, cheap: bool = False, logged: int = 0) -> None:
        self.target = target
        self.cheap = cheap
        self._rules = Rules(target.limit_ms, target.fade, cheap)
        self._any_cost = self._rules._replace(cheap=False)
        self.memory = Memory(
            sums=np.zeros(SUMS),
            log=np.zeros((logged, COLUMNS)),
            numbers=np.zeros(NUMBERS, dtype=np.int64),
        )

    def admit(self, offer: Offer, pace: float = 1.0, left: Int64 | None = None) -> Bool:
        """Decide about records until `left` of them are admitted; return the decisions made.

        Args:
            offer: records to decide about.
            pace: time by which the clock moves on for a millisecond of cost.
            left: number of records to admit, counted down in place; None to decide about all.
        """
        return decide(
            offer, self._rules, pace, self.memory, _everything() if left is None else left
        )

    def admit_together(self, offer: Offer, pace: float = 1.0) -> Bool:
        """Decide about records that are all there at once; see `admit`.

        If expensive records are shed first, the highest cost is searched up to which all records
        fit that have not waited too long already. Cheaper records are admitted, and more expensive
        records are shed. Records of about that cost are admitted as far as there is room.
        """
        if not self.cheap:
            return self.admit(offer, pace)
        if not offer.protected.size:
            offer = offer._replace(protected=np.zeros(offer.costs_ms.size, dtype=np.bool_))
        if self._fits(offer, pace) or not self._fits(offer, pace, highest_ms=-1.0):
            return decide(offer, self._any_cost, pace, self.memory, _everything())
        chosen = self._cheapest(offer, pace)
        kept = offer.only(chosen)
        kept = kept._replace(protected=np.ones(kept.costs_ms.size, dtype=np.bool_))
        decide(kept, self._any_cost, pace, self.memory, _everything())
        return chosen

    def _cheapest(self, offer: Offer, pace: float) -> Bool:
        """Return the cheapest records that fit, of those that have not waited too long already."""
        begun_ms = np.maximum(self.memory.sums[CLOCK], offer.now_ms)
        in_time = (begun_ms - offer.arrival_ms <= self.target.limit_ms) | offer.protected
        timely = offer.only(in_time)
        low_ms, high_ms = -1.0, float(offer.costs_ms.max())
        for _ in range(_HALVINGS):
            middle_ms = (low_ms + high_ms) / 2
            if self._fits(timely, pace, middle_ms):
                low_ms = middle_ms
            else:
                high_ms = middle_ms
        chosen = in_time & (offer.protected | (offer.costs_ms <= low_ms))
        between = np.flatnonzero(in_time & ~chosen & (offer.costs_ms <= high_ms))
        return self._filled(offer, pace, chosen, between)

    def _filled(self, offer: Offer, pace: float, chosen: Bool, candidates: Int64) -> Bool:
        """Return the chosen records, with as many of the first candidates as fit.

        Candidates delay chosen records that arrived after them, so all are tried together.
        """

        def with_first(count: int) -> Bool:
            trial = chosen.copy()
            trial[candidates[:count]] = True
            return trial

        fits, beyond = 0, candidates.size + 1
        while beyond - fits > 1:
            middle = (fits + beyond) // 2
            if self._fits(offer.only(with_first(middle)), pace):
                fits = middle
            else:
                beyond = middle
        return with_first(fits)

    def _fits(self, offer: Offer, pace: float, highest_ms: float = np.inf) -> bool:
        """Whether the target holds if all records up to a cost are admitted."""
        return room_left(offer, self._rules, pace, self.memory.sums, highest_ms) >= 0

    def request(self) -> tuple[int, float]:
        """Return the number of the last admitted record, and its expected finish time.

        The time is without the corrections so far. Several answers may be under way, and no error
        must be corrected twice.
        """
        number = int(self.memory.numbers[ADMITTED]) - 1
        return number, float(self.memory.log[number % len(self.memory.log), DONE])

    def correct(self, number: int, delta_ms: float, pace: float = 1.0) -> None:
        """Correct the clock and the mean waiting time by the true finish time of a record.

        The records admitted after it are replayed, so that idle time is accounted for. The replay
        corrects the waiting times of these records. Those of the records up to this one are
        corrected by half of the error, as errors add up from one correction to the next.

        Args:
            number: number of the record, as in `request`.
            delta_ms: true finish time minus the expected one.
            pace: time by which the clock moves on for a millisecond of cost.
        """
        correct(number, delta_ms, pace, self.memory)

    def begin(self, now_ms: float, share: float) -> None:
        """Begin a batch: all admitted records are done, and routers share the room that is left.

        Args:
            now_ms: time at which the batch begins.
            share: share of the room for this router, in (0, 1].
        """
        self.memory.sums[CLOCK] = now_ms
        self.memory.sums[PLANNED] = 0
        self.memory.sums[[WAITED, COUNT]] *= share

    @property
    def planned_ms(self) -> float:
        """Total expected waiting time of the records admitted since the batch began."""
        return float(self.memory.sums[PLANNED])

    def note(self, waited_ms: float, records: int) -> None:
        """Take note of records that other routers have admitted.

        Args:
            waited_ms: total waiting time of these records.
            records: number of these records.
        """
        if records:
            before = self.target.fade**records
            # Only the newest records count, if there are more than the target averages.
            count = (1 - before) / (1 - self.target.fade) if self.target.records else records
            sums = self.memory.sums
            sums[WAITED] = before * sums[WAITED] + count * waited_ms / records
            sums[COUNT] = before * sums[COUNT] + count

    def restart(self) -> None:
        """Forget all admitted records; the mean cost stays learnt."""
        self.memory.sums[[CLOCK, WAITED, COUNT, SHIFT, PLANNED]] = 0
        self.memory.log[:] = 0
        self.memory.numbers[:] = 0

    def arrays(self) -> Arrays:
        """Return everything that it remembers, for snapshots; the arrays are the ones in use."""
        return self.memory._asdict()


def _everything() -> Int64:
    """Return a number of records to admit that is never reached; kernels count it down."""
    return np.array([np.iinfo(np.int64).max])
