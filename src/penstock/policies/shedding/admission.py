r"""Admission by waiting time, which all shedders with a target share.

Admission keeps a finish clock $C$: the time at which all admitted records will be done. A record
that arrives at $a$ and is decided about at $now$ would wait

$$\hat q = \max(C, now) - a$$

It is shed if the mean waiting time of the last records, with $\hat q$, would pass the target
$\tau$ (older ones fade away, see `Target`); otherwise the clock moves on by what the record is
expected to cost, shared by $k$ instances:

$$C \leftarrow \max(C, now) + \hat w / k$$

A record that would wait for half of the target at most is always admitted: it can only lower
the average, and a debt of the past never starves the stream.

**Cheap records first.** Any record costs the average the same waiting time, but an expensive one
holds up all that follow. With `cheap`, a record is shed if its cost passes a threshold that falls
with the queue and follows the room $R$ (the target times the number of records, minus their
waiting times) that is left to the target: a proportional and integral controller, critically
damped, whose speed follows the target:

$$\hat w > \tfrac12 \bar w + \frac{b^2}{4} R - b\,(\hat q - \tau), \qquad
  b = \min(0.6\,\bar w / \tau, 0.5)$$
"""

import numpy as np

from penstock.policies.codec import Arrays
from penstock.policies.kernels import Bool, Float64, Int64, kernel
from penstock.policies.shedding.targets import Target

# Names of the sums.
CLOCK, WAITED, COUNT, MEAN, SEEN, SHIFT, PLANNED, SUMS = range(8)
# Names of the numbers.
ADMITTED, SET_RIGHT, NUMBERS = range(3)
# Names of the columns of the log.
NOW, COST, WAIT, DONE, COLUMNS = range(5)

_GAIN = 0.6
_MOST_GAIN = 0.5
# Records over which the mean cost of offered records is followed.
_MEMORY = 1_000.0
NEVER = np.iinfo(np.int64).max
# Steps of the search for the highest cost that can be admitted.
_HALVINGS = 20


class Admission:
    """Admits records as long as a target holds.

    Args:
        target: what must hold.
        cheap: whether expensive records are shed first.
        logged: how many admitted records are remembered, so that they can be replayed when it
            turns out that the clock was wrong.
    """

    def __init__(self, target: Target, cheap: bool = False, logged: int = 0) -> None:
        self.target = target
        self.cheap = cheap
        self.sums = np.zeros(SUMS)
        self.log = np.zeros((logged, COLUMNS))
        self.numbers = np.zeros(NUMBERS, dtype=np.int64)

    def admit(
        self,
        costs_ms: Float64,
        arrival_ms: Float64,
        now_ms: Float64,
        protected: Bool,
        out: Bool,
        pace: float = 1.0,
        left: Int64 | None = None,
        cheap: bool | None = None,
    ) -> int:
        """Decide about records until `left` of them are admitted; return how many.

        Args:
            costs_ms: what each record is expected to cost.
            arrival_ms: when each arrived.
            now_ms: when it is decided about each.
            protected: records that are always admitted; empty if there are none.
            out: the decisions.
            pace: by how much the clock moves on for a millisecond of cost.
            left: counted down in place; without it all records are decided about.
            cheap: whether expensive records are shed first; as the admission does by default.
        """
        if left is None:
            left = np.array([NEVER])
        first = self.cheap if cheap is None else cheap
        given = costs_ms, arrival_ms, now_ms, protected, out, pace, left
        limits = self.target.limit_ms, self.target.fade, first
        return _admit(*given, *limits, self.sums, self.log, self.numbers)

    def admit_together(
        self,
        costs_ms: Float64,
        arrival_ms: Float64,
        now_ms: Float64,
        protected: Bool,
        out: Bool,
        pace: float = 1.0,
    ) -> None:
        """Decide about records that are all there at once; see `admit`.

        If cheap ones go first, the highest cost is searched up to which all can be admitted that
        have not waited too long already. Cheaper records are, more expensive ones are shed, and
        those in between as there is room.
        """
        spared = protected if protected.size else np.zeros(costs_ms.size, dtype=np.bool_)
        given = costs_ms, arrival_ms, now_ms, spared, pace
        if not self.cheap or self._fits(*given, np.inf) or not self._fits(*given, -1.0):
            self.admit(costs_ms, arrival_ms, now_ms, protected, out, pace, cheap=False)
            return
        begun_ms = np.maximum(self.sums[CLOCK], now_ms)
        in_time = (begun_ms - arrival_ms <= self.target.limit_ms) | spared
        given = costs_ms[in_time], arrival_ms[in_time], now_ms[in_time], spared[in_time], pace
        low_ms, high_ms = -1.0, float(costs_ms.max())
        for _ in range(_HALVINGS):
            middle_ms = (low_ms + high_ms) / 2
            if self._fits(*given, middle_ms):
                low_ms = middle_ms
            else:
                high_ms = middle_ms
        chosen = in_time & (spared | (costs_ms <= low_ms))
        between = np.flatnonzero(in_time & ~chosen & (costs_ms <= high_ms))
        given = costs_ms, arrival_ms, now_ms, spared, pace
        chosen[between[: self._room_for(*given, chosen, between)]] = True
        some = costs_ms[chosen], arrival_ms[chosen], now_ms[chosen]
        admitted = np.ones(int(chosen.sum()), dtype=np.bool_)
        self.admit(*some, admitted, admitted, pace, cheap=False)
        out[:] = chosen

    def _room_for(
        self,
        costs_ms: Float64,
        arrival_ms: Float64,
        now_ms: Float64,
        protected: Bool,
        pace: float,
        chosen: Bool,
        candidates: Int64,
    ) -> int:
        """Return how many of the first candidates fit in with the chosen records.

        They delay chosen records that arrived after them, so all are looked at together.
        """
        fits, beyond = 0, candidates.size + 1
        while beyond - fits > 1:
            middle = (fits + beyond) // 2
            trial = chosen.copy()
            trial[candidates[:middle]] = True
            some = costs_ms[trial], arrival_ms[trial], now_ms[trial], protected[trial]
            if self._fits(*some, pace, np.inf):
                fits = middle
            else:
                beyond = middle
        return fits

    def _fits(
        self,
        costs_ms: Float64,
        arrival_ms: Float64,
        now_ms: Float64,
        protected: Bool,
        pace: float,
        highest_ms: float,
    ) -> bool:
        """Whether the target holds if all records up to a cost are admitted."""
        given = costs_ms, arrival_ms, now_ms, protected, pace
        target = self.target.limit_ms, self.target.fade
        return _room_left(*given, *target, highest_ms, self.sums) >= 0

    def request(self) -> tuple[int, float]:
        """Return the number of the last admitted record, and when it is expected to be done.

        Without the corrections so far: several answers may be under way, and what one of them
        has set right must not be set right again by the next.
        """
        number = int(self.numbers[ADMITTED]) - 1
        return number, float(self.log[number % len(self.log), DONE])

    def set_right(self, number: int, delta_ms: float, pace: float = 1.0) -> None:
        """Correct the clock: an admitted record was done so much later than expected.

        What was admitted after it is replayed, so that idle time is accounted for, and the mean
        waiting time is corrected: by what the replay finds, and for the records up to this one
        by half of the error, as errors add up from one correction to the next.
        """
        _set_right(number, delta_ms, pace, self.sums, self.log, self.numbers)

    def begin(self, now_ms: float, share: float) -> None:
        """All that was admitted is done; others share the room that the target leaves."""
        self.sums[CLOCK] = now_ms
        self.sums[PLANNED] = 0
        self.sums[[WAITED, COUNT]] *= share

    @property
    def planned_ms(self) -> float:
        """Waiting times of what has been admitted since the last beginning."""
        return float(self.sums[PLANNED])

    def note(self, waited_ms: float, records: int) -> None:
        """Take note of records that were admitted elsewhere, and wait so long in total."""
        if records:
            before = self.target.fade**records
            # The newest ones count, if there are more of them than the target looks at.
            count = (1 - before) / (1 - self.target.fade) if self.target.records else records
            self.sums[WAITED] = before * self.sums[WAITED] + count * waited_ms / records
            self.sums[COUNT] = before * self.sums[COUNT] + count

    def restart(self) -> None:
        """Nothing has been admitted."""
        self.sums[[CLOCK, WAITED, COUNT, SHIFT, PLANNED]] = 0
        self.log[:] = 0
        self.numbers[:] = 0

    def arrays(self) -> Arrays:
        """Everything it remembers, for snapshots; the arrays are the ones in use."""
        return {"sums": self.sums, "log": self.log, "numbers": self.numbers}


@kernel
def _shed(
    cost_ms: float, wait_ms: float, limit_ms: float, fade: float, cheap: bool, sums: Float64
) -> bool:
    if wait_ms <= limit_ms / 2:
        return False
    room_ms: float = limit_ms * (fade * sums[COUNT] + 1) - (fade * sums[WAITED] + wait_ms)
    if not cheap:
        return room_ms < 0
    if fade == 0 and room_ms < 0:
        return True
    mean_ms = float(sums[MEAN])
    gain = min(_GAIN * mean_ms / limit_ms, _MOST_GAIN)
    threshold_ms: float = mean_ms / 2 + gain * gain / 4 * room_ms - gain * (wait_ms - limit_ms)
    return cost_ms > threshold_ms


@kernel
def _admit(
    costs_ms: Float64,
    arrival_ms: Float64,
    now_ms: Float64,
    protected: Bool,
    out: Bool,
    pace: float,
    left: Int64,
    limit_ms: float,
    fade: float,
    cheap: bool,
    sums: Float64,
    log: Float64,
    numbers: Int64,
) -> int:
    for i in range(costs_ms.size):
        cost_ms = costs_ms[i]
        start_ms = max(sums[CLOCK], now_ms[i])
        wait_ms = max(start_ms - arrival_ms[i], 0.0)
        sums[SEEN] = min(sums[SEEN] + 1, _MEMORY)
        sums[MEAN] += (cost_ms - sums[MEAN]) / sums[SEEN]
        spared = protected.size > 0 and protected[i]
        if not spared and _shed(cost_ms, wait_ms, limit_ms, fade, cheap, sums):
            out[i] = False
            continue
        out[i] = True
        sums[CLOCK] = start_ms + pace * cost_ms
        sums[PLANNED] += wait_ms
        sums[WAITED] = fade * sums[WAITED] + wait_ms
        sums[COUNT] = fade * sums[COUNT] + 1
        if log.shape[0]:
            entry = log[numbers[ADMITTED] % log.shape[0]]
            entry[NOW] = now_ms[i]
            entry[COST] = cost_ms
            entry[WAIT] = start_ms - now_ms[i]
            entry[DONE] = start_ms + cost_ms - sums[SHIFT]
        numbers[ADMITTED] += 1
        left[0] -= 1
        if left[0] == 0:
            return i + 1
    return costs_ms.size


@kernel
def _room_left(
    costs_ms: Float64,
    arrival_ms: Float64,
    now_ms: Float64,
    protected: Bool,
    pace: float,
    limit_ms: float,
    fade: float,
    highest_ms: float,
    sums: Float64,
) -> float:
    """What the target leaves if all records up to a cost are admitted; below 0 if it fails."""
    clock_ms, waited_ms, count = sums[CLOCK], sums[WAITED], sums[COUNT]
    least_ms = np.inf
    for i in range(costs_ms.size):
        if costs_ms[i] > highest_ms and not protected[i]:
            continue
        start_ms = max(clock_ms, now_ms[i])
        wait_ms = max(start_ms - arrival_ms[i], 0.0)
        clock_ms = start_ms + pace * costs_ms[i]
        waited_ms = fade * waited_ms + wait_ms
        count = fade * count + 1
        if not protected[i]:
            least_ms = min(least_ms, limit_ms - wait_ms)
    if fade == 0:
        return least_ms
    room_ms: float = limit_ms * count - waited_ms
    return room_ms


@kernel
def _set_right(
    number: int,
    delta_ms: float,
    pace: float,
    sums: Float64,
    log: Float64,
    numbers: Int64,
) -> None:
    after = numbers[ADMITTED] - number
    if after > log.shape[0]:
        error_ms = delta_ms - sums[SHIFT]
        missed_ms = after * error_ms
        sums[CLOCK] += error_ms
    else:
        entry = log[number % log.shape[0]]
        error_ms = entry[DONE] + delta_ms - (entry[NOW] + entry[WAIT] + entry[COST])
        missed_ms = 0.0
        clock_ms = entry[NOW] + entry[WAIT] + error_ms + pace * entry[COST]
        for i in range(number + 1, numbers[ADMITTED]):
            entry = log[i % log.shape[0]]
            start_ms = max(clock_ms, entry[NOW])
            missed_ms += start_ms - entry[NOW] - entry[WAIT]
            entry[WAIT] = start_ms - entry[NOW]
            clock_ms = start_ms + pace * entry[COST]
        if number < 0:  # asked before anything was known: the answer is the time itself
            error_ms = clock_ms - sums[CLOCK]
        sums[CLOCK] = clock_ms
    sums[SHIFT] += error_ms
    if number >= 0:
        missed_ms += (number - numbers[SET_RIGHT]) * error_ms / 2
    records = numbers[ADMITTED] - numbers[SET_RIGHT]
    if records > 0:
        sums[WAITED] += missed_ms * min(1.0, sums[COUNT] / records)
    numbers[SET_RIGHT] = max(number, 0)
