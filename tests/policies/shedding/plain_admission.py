"""The admission's plain twin, and records that are offered to an admission."""

from collections import namedtuple

import numpy as np

from penstock.policies.shedding.finish_clock import Offer

Entry = namedtuple("Entry", "now cost wait done")


class PlainAdmission:
    """The admission with a list of all admitted records, of which it may read the last ones."""

    def __init__(self, target, cheap=False, logged=0):
        self.limit, self.fade = target.limit_ms, target.fade
        self.cheap, self.logged = cheap, logged
        self.clock = self.waited = self.count = self.planned = self.shift = 0.0
        self.mean = self.seen = 0.0
        self.entries = []
        self.corrected = 0

    def admit(self, cost, arrival, now, protected=False, pace=1.0):
        """Whether one record is admitted."""
        start = max(self.clock, now)
        wait = max(start - arrival, 0.0)
        self.seen = min(self.seen + 1, 1_000.0)
        self.mean += (cost - self.mean) / self.seen
        if not protected and self.sheds(cost, wait):
            return False
        self.clock = start + pace * cost
        self.planned += wait
        self.waited = self.fade * self.waited + wait
        self.count = self.fade * self.count + 1
        self.entries.append(Entry(now, cost, start - now, start + cost - self.shift))
        return True

    def sheds(self, cost, wait):
        """Whether the target is at stake, and this record is one to shed."""
        if wait <= self.limit / 2:
            return False
        room = self.limit * (self.fade * self.count + 1) - (self.fade * self.waited + wait)
        if not self.cheap:
            return room < 0
        if self.fade == 0 and room < 0:
            return True
        b = min(0.6 * self.mean / self.limit, 0.5)
        return cost > self.mean / 2 + b * b / 4 * room - b * (wait - self.limit)

    def correct(self, number, delta, pace=1.0):
        """Record `number` was done so much later than in its entry."""
        later = len(self.entries) - number
        if later > self.logged:
            error = delta - self.shift
            self.clock += error
            missed = later * error
        else:
            entry = self.entries[number]
            error = entry.done + delta - (entry.now + entry.wait + entry.cost)
            clock, missed = entry.now + entry.wait + error + pace * entry.cost, 0.0
            for n in range(number + 1, len(self.entries)):
                entry = self.entries[n]
                start = max(clock, entry.now)
                missed += start - entry.now - entry.wait
                self.entries[n] = entry._replace(wait=start - entry.now)
                clock = start + pace * entry.cost
            self.clock = clock
        self.shift += error
        missed += (number - self.corrected) * error / 2
        self.waited += missed * min(1.0, self.count / (len(self.entries) - self.corrected))
        self.corrected = number


def offer(admission, records, pace=1.0, left=None):
    """Decide about (cost, arrival, now, protected); return the decisions that were made."""
    costs, arrivals, nows, spared = (np.array(column) for column in zip(*records, strict=True))
    offered = Offer(
        costs_ms=costs.astype(float),
        arrival_ms=arrivals.astype(float),
        now_ms=nows.astype(float),
        protected=spared.astype(np.bool_),
    )
    return admission.admit(offered, pace, left).tolist()
