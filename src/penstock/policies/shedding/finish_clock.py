"""Kernels of the admission: a finish clock, and the waiting times that follow from it."""

from typing import NamedTuple

import numpy as np

from penstock.policies.kernels import Bool, Float64, Int64, kernel

# Indexes of the sums.
CLOCK, WAITED, COUNT, MEAN, SEEN, SHIFT, PLANNED, SUMS = range(8)
# Indexes of the numbers.
ADMITTED, CORRECTED, NUMBERS = range(3)
# Columns of the log.
NOW, COST, WAIT, DONE, COLUMNS = range(5)

_GAIN = 0.6
_MOST_GAIN = 0.5
# Offered records over which the mean cost is averaged.
_MEAN_OVER = 1_000.0


class Offer(NamedTuple):
    """Records that are offered to an admission, in the order of their arrival.

    Attributes:
        costs_ms: expected cost of each record.
        arrival_ms: time at which each record arrived.
        now_ms: time at which each record is admitted or shed.
        protected: whether each record must be admitted; empty if none is protected.
    """

    costs_ms: Float64
    arrival_ms: Float64
    now_ms: Float64
    protected: Bool

    def only(self, chosen: Bool) -> "Offer":
        """Return the chosen records; `protected` must not be empty."""
        return Offer(
            costs_ms=self.costs_ms[chosen],
            arrival_ms=self.arrival_ms[chosen],
            now_ms=self.now_ms[chosen],
            protected=self.protected[chosen],
        )


class Rules(NamedTuple):
    """Rules by which offered records are admitted or shed.

    Attributes:
        limit_ms: target: limit of the waiting time, or of its average.
        fade: weight of a waiting time in the average after one more record.
        cheap: whether expensive records are shed first.
    """

    limit_ms: float
    fade: float
    cheap: bool


class Memory(NamedTuple):
    """Everything that an admission remembers. Kernels change the arrays in place.

    Attributes:
        sums: finish clock, sums of waiting times and mean cost, at CLOCK, WAITED, COUNT, ...
        log: the newest admitted records, with a row each and the columns NOW, COST, WAIT, DONE.
        numbers: number of admitted records, and of the newest record that corrected the clock.
    """

    sums: Float64
    log: Float64
    numbers: Int64


@kernel
def decide(offer: Offer, rules: Rules, pace: float, memory: Memory, left: Int64) -> Bool:
    """Decide about records until `left` of them are admitted; return the decisions made.

    The clock moves on by `pace` for a millisecond of cost.
    """
    sums, log, numbers = memory.sums, memory.log, memory.numbers
    out = np.empty(offer.costs_ms.size, dtype=np.bool_)
    for i in range(out.size):
        cost_ms = offer.costs_ms[i]
        start_ms = max(sums[CLOCK], offer.now_ms[i])
        wait_ms = max(start_ms - offer.arrival_ms[i], 0.0)
        sums[SEEN] = min(sums[SEEN] + 1, _MEAN_OVER)
        sums[MEAN] += (cost_ms - sums[MEAN]) / sums[SEEN]
        protected = offer.protected.size > 0 and offer.protected[i]
        if not protected and _sheds(cost_ms, wait_ms, rules, sums):
            out[i] = False
            continue
        out[i] = True
        sums[CLOCK] = start_ms + pace * cost_ms
        sums[PLANNED] += wait_ms
        sums[WAITED] = rules.fade * sums[WAITED] + wait_ms
        sums[COUNT] = rules.fade * sums[COUNT] + 1
        if log.shape[0]:
            entry = log[numbers[ADMITTED] % log.shape[0]]
            entry[NOW] = offer.now_ms[i]
            entry[COST] = cost_ms
            entry[WAIT] = start_ms - offer.now_ms[i]
            entry[DONE] = start_ms + cost_ms - sums[SHIFT]
        numbers[ADMITTED] += 1
        left[0] -= 1
        if left[0] == 0:
            return out[: i + 1]
    return out


@kernel
def _sheds(cost_ms: float, wait_ms: float, rules: Rules, sums: Float64) -> bool:
    limit_ms, fade = rules.limit_ms, rules.fade
    if wait_ms <= limit_ms / 2:
        return False
    room_ms: float = limit_ms * (fade * sums[COUNT] + 1) - (fade * sums[WAITED] + wait_ms)
    if not rules.cheap:
        return room_ms < 0
    if fade == 0 and room_ms < 0:
        return True
    mean_ms = float(sums[MEAN])
    gain = min(_GAIN * mean_ms / limit_ms, _MOST_GAIN)
    threshold_ms: float = mean_ms / 2 + gain * gain / 4 * room_ms - gain * (wait_ms - limit_ms)
    return cost_ms > threshold_ms


@kernel
def room_left(offer: Offer, rules: Rules, pace: float, sums: Float64, highest_ms: float) -> float:
    """Return the room that is left to the target if all records up to a cost are admitted.

    It is below 0 if the target fails. `protected` must not be empty.
    """
    clock_ms, waited_ms, count = sums[CLOCK], sums[WAITED], sums[COUNT]
    least_ms = np.inf
    for i in range(offer.costs_ms.size):
        if offer.costs_ms[i] > highest_ms and not offer.protected[i]:
            continue
        start_ms = max(clock_ms, offer.now_ms[i])
        wait_ms = max(start_ms - offer.arrival_ms[i], 0.0)
        clock_ms = start_ms + pace * offer.costs_ms[i]
        waited_ms = rules.fade * waited_ms + wait_ms
        count = rules.fade * count + 1
        if not offer.protected[i]:
            least_ms = min(least_ms, rules.limit_ms - wait_ms)
    if rules.fade == 0:
        return least_ms
    room_ms: float = rules.limit_ms * count - waited_ms
    return room_ms


@kernel
def correct(number: int, delta_ms: float, pace: float, memory: Memory) -> None:
    """Correct the clock: record `number` was done `delta_ms` later than expected."""
    sums, log, numbers = memory.sums, memory.log, memory.numbers
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
        if number < 0:  # requested before any record was admitted: the answer is the time itself
            error_ms = clock_ms - sums[CLOCK]
        sums[CLOCK] = clock_ms
    sums[SHIFT] += error_ms
    if number >= 0:
        missed_ms += (number - numbers[CORRECTED]) * error_ms / 2
    records = numbers[ADMITTED] - numbers[CORRECTED]
    if records > 0:
        sums[WAITED] += missed_ms * min(1.0, sums[COUNT] / records)
    numbers[CORRECTED] = max(number, 0)
