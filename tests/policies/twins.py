"""Plain-Python twins that the kernels are held against."""

import numpy as np

F32, F64 = np.float32, np.float64
COUNT, HITS, MEAN_MS = range(3)


class PlainTable:
    """Space-Saving with a dictionary: key -> [count, hits, mean_ms] in single precision.

    Of several keys with the smallest count any may be evicted: `learn` is told which one was.
    """

    def __init__(self, capacity=10**9):
        self.capacity = capacity
        self.entries = {}
        self.records = self.evicted = F64(0)
        self.rest = self.rest_ms = self.rest_ms2 = F64(0)
        self.pairs = self.pairs_ms2 = F64(0)

    def update(self, key, cost_ms, evicted=None):
        """Learn from one record."""
        self.learn(key, F64(1), F64(cost_ms), evicted)

    def learn(self, key, hits, mean_ms, evicted=None):
        """Learn from `hits` records of a key, of `mean_ms` each."""
        self.records += hits
        if key in self.entries:
            count, old_hits, old_ms = self.entries[key]
            apart = mean_ms - old_ms
            self.pairs_ms2 += apart * apart * hits * old_hits / (hits + old_hits)
            self.pairs += 1
            new_hits = F32(old_hits + hits)
            new_ms = F32(old_ms + apart * hits / new_hits)
            self.entries[key] = [F32(count + hits), new_hits, new_ms]
            return
        self.rest += 1
        self.rest_ms += mean_ms
        self.rest_ms2 += mean_ms * mean_ms
        count = F32(0)
        if len(self.entries) == self.capacity:
            assert evicted in self.entries, "the table was full: one key had to go"
            count, old_hits, _ = self.entries.pop(evicted)
            assert count <= min((e[COUNT] for e in self.entries.values()), default=count)
            self.evicted += old_hits
        self.entries[key] = [F32(count + hits), F32(hits), F32(mean_ms)]

    def merge(self, other, scale=1.0):
        """Learn what another table has learnt."""
        for key, (_, hits, mean_ms) in other.entries.items():
            self.learn(key, hits, mean_ms * F64(scale))
        self.records += other.evicted
        self.pairs += other.pairs
        self.pairs_ms2 += other.pairs_ms2 * scale * scale

    def age(self, factor, scale=1.0):
        """Let old records count `factor` times as much, and cost `scale` times as much."""
        weights = F64([factor, factor, scale])
        for key, entry in self.entries.items():
            self.entries[key] = [F32(v * w) for v, w in zip(entry, weights, strict=True)]
        self.records *= factor
        self.evicted *= factor
        self.rest *= factor
        self.rest_ms *= factor * scale
        self.rest_ms2 *= factor * scale * scale
        self.pairs *= factor
        self.pairs_ms2 *= factor * scale * scale

    def mean_of_rest(self):
        """Mean cost of records that met a table without their key."""
        return self.rest_ms / self.rest if self.rest else F64(0)

    def variance_of_rest(self):
        """Variance of the costs of different keys."""
        if not self.rest:
            return F64(0)
        return max(self.rest_ms2 / self.rest - self.mean_of_rest() ** 2, F64(0))

    def variance_within(self, prior_pairs):
        """Variance of the costs of one key."""
        pairs = self.pairs + prior_pairs
        total = self.pairs_ms2 + prior_pairs * self.variance_of_rest()
        return total / pairs if pairs else F64(0)

    def estimate(self, key):
        """Mean cost of a key, shrunk towards that of the rest."""
        rest_ms = self.mean_of_rest()
        if key not in self.entries:
            return rest_ms
        within = self.variance_within(0)
        between = self.variance_of_rest() - within
        doubt = within and (min(within / between, 100) if between > 0 else 100)
        _, hits, mean_ms = self.entries[key]
        return rest_ms + (mean_ms - rest_ms) * hits / (hits + F64(doubt))


class PlainProactive:
    """Routing and learning with lists and dictionaries, one record at a time."""

    def __init__(self, k, window, first_window, half_life, drift):
        self.k, self.window, self.half_life, self.drift = k, window, half_life, drift
        self.costs = PlainTable()
        self.clocks = [0.0] * k
        self.corrections = [0.0] * k
        self.slowdown = [1.0] * k
        self.uncertainty = [0.1] * k
        self.heard = set()
        self.unaged = 0.0
        self.windows = [min(first_window, window)] * k
        self.left = list(self.windows)
        self.turn = 0

    def route(self, key, now, theirs):
        """The instance, and the uncorrected clock that is sent along or None.

        Clocks that differ in their last digits only are equal: then it is `theirs`.
        """
        if len(self.heard) == self.k:
            least = min(self.clocks)
            chosen = theirs if self.clocks[theirs] - least < 1e-9 else self.clocks.index(least)
        else:
            chosen = self.turn
            self.turn = (self.turn + 1) % self.k
        cost = self.slowdown[chosen] * self.costs.estimate(key)
        self.clocks[chosen] = max(self.clocks[chosen], now) + cost
        self.left[chosen] -= 1
        if self.left[chosen]:
            return chosen, None
        self.windows[chosen] = min(2 * self.windows[chosen], self.window)
        self.left[chosen] = self.windows[chosen]
        return chosen, self.clocks[chosen] - self.corrections[chosen]

    def observe(self, i, measured, delta):
        """What instance i has measured, and by how much its clock is wrong."""
        self.heard.add(i)
        known = [(e, self.costs.entries.get(key)) for key, e in measured.entries.items()]
        there = sum(float(e[HITS] * e[MEAN_MS]) for e, here in known if here)
        here = sum(float(e[HITS] * here[MEAN_MS]) for e, here in known if here)
        if there > 0 and here > 0:
            self.uncertainty[i] += self.drift * self.drift * measured.records / 1000
            noise = self.costs.variance_within(32.0) * measured.records / here**2
            weight = self.uncertainty[i] / (self.uncertainty[i] + noise)
            seen = min(max(there / here, self.slowdown[i] / 2), self.slowdown[i] * 2)
            self.slowdown[i] += weight * (seen - self.slowdown[i])
            self.uncertainty[i] *= 1 - weight
        self.costs.merge(measured, 1 / self.slowdown[i])
        self.unaged += measured.records
        if self.unaged >= self.half_life / 32:
            common = sum(self.slowdown) / self.k
            self.slowdown = [s / common for s in self.slowdown]
            self.costs.age(0.5 ** (self.unaged / self.half_life), common)
            self.unaged = 0.0
        self.clocks[i] += delta - self.corrections[i]
        self.corrections[i] = delta


def optimum(costs, k):
    """The smallest makespan, by trying every assignment."""
    loads = {(0,) * k}
    for cost in costs:
        loads = {
            tuple(sorted((*load[:i], load[i] + cost, *load[i + 1 :])))
            for load in loads
            for i in range(k)
        }
    return min(max(load) for load in loads)
