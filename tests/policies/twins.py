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


WORD, HALF = 2**64 - 1, 2**32 - 1


def plain_mix(key, salt):
    """The finaliser of SplitMix64 in Python's own integers."""
    bits = (key & WORD) ^ salt
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & WORD
    return bits ^ (bits >> 31)


def plain_choices(key, salt, owner):
    """The bins of a key, one after the other, for ever."""
    mixed = plain_mix(key, salt)
    at, step = mixed >> 32, (mixed & HALF) | 1
    while True:
        yield int(owner[at * len(owner) >> 32])
        at = (at + step) & HALF


class PlainLoads:
    """What was sent to each bin, and when it counts half; `choose` is that of a grouping."""

    def __init__(self, bins, half_life, salt):
        self.bins, self.half_life, self.salt = bins, half_life, salt
        self.loads = [0] * bins
        self.sent = 0  # since loads were halved
        self.total = 0

    def route(self, keys, together=False):
        """The bins of some records."""
        out = []
        for n, key in enumerate(keys):
            if not together:
                self.total += 1
            elif n == 0 or self.sent == 0:
                self.total += min(len(keys) - n, self.until_halved())
            out.append(self.choose(int(key)))
            self.loads[out[-1]] += 1
            self.sent += 1
            if self.until_halved() == 0:
                self.fade()
        return out

    def fade(self):
        """Let all that was sent count half."""
        self.loads = [load // 2 for load in self.loads]
        self.total, self.sent = sum(self.loads), 0

    def until_halved(self):
        """Records that are left."""
        return 10**9 if self.half_life is None else self.half_life * self.bins - self.sent

    def lighter(self, first, second):
        """Of two bins the one with less load."""
        return second if self.loads[second] < self.loads[first] else first


class PlainPartialKey(PlainLoads):
    """Two bins for every key."""

    def __init__(self, bins, half_life, salt, owner):
        super().__init__(bins, half_life, salt)
        self.owner = owner

    def both(self, key):
        """The two bins."""
        mixed = plain_mix(key, self.salt)
        odd = (mixed & HALF) | 1
        first, second = (int(self.owner[h * len(self.owner) >> 32]) for h in (mixed >> 32, odd))
        if first == second and self.bins > 1:
            second = (first + 1 + (odd >> 1) % (self.bins - 1)) % self.bins
        return first, second

    def choose(self, key):
        """The lighter one."""
        first, second = self.both(key)
        return self.lighter(first, second)


class PlainTwoChoices(PlainLoads):
    """Two bins for every record."""

    drawn = 0

    def choose(self, key):
        """Draw two, and take the lighter one."""
        mixed = plain_mix(self.drawn, self.salt)
        self.drawn += 1
        first = (mixed >> 32) * self.bins >> 32
        apart = 1 + ((mixed & HALF) * (self.bins - 1) >> 32)
        return self.lighter(first, (first + apart) % self.bins if self.bins > 1 else first)


class PlainRandomChoices(PlainLoads):
    """The first choice with room; the last places are for one key."""

    def __init__(self, bins, epsilon, probes, half_life, salt, owner, reserve):
        super().__init__(bins, half_life, salt)
        self.owner, self.probes, self.overflow = owner, probes, 0
        self.most = (1 + epsilon) / bins
        self.open_to_all = (1 + epsilon * (1 - reserve)) / bins
        self.hot = [(0, 0)] * bins  # a key and its votes

    def choose(self, key):
        """Try the choices, then the overflow bin."""
        for _, tried in zip(range(self.probes), self.choices(key), strict=False):
            if self.loads[tried] <= self.open_to_all * self.total:
                return tried
            if self.loads[tried] < self.most * self.total and self.votes_for(tried, key):
                return tried
        if self.loads[self.overflow] >= self.most * self.total:
            self.overflow = self.loads.index(min(self.loads))
        return self.overflow

    def fade(self):
        """Votes as well."""
        super().fade()
        self.hot = [(key, votes // 2) for key, votes in self.hot]

    def choices(self, key):
        """The bins of a key."""
        return plain_choices(key, self.salt, self.owner)

    def votes_for(self, tried, key):
        """Majority vote: is this the key that the bin's last places are for?"""
        holder, votes = self.hot[tried]
        if holder == key:
            self.hot[tried] = key, votes + 2
        elif votes == 0:
            self.hot[tried] = key, 0
        else:
            self.hot[tried] = holder, votes - 1
        return self.hot[tried][0] == key


class PlainBoundedHash(PlainLoads):
    """Clockwise to the first bin with room."""

    def __init__(self, bins, epsilon, points, half_life, salt):
        super().__init__(bins, half_life, salt)
        self.most = (1 + epsilon) / bins
        other = salt ^ 2**63
        self.ring = sorted((plain_mix(i, other) >> 32, i // points) for i in range(bins * points))

    def choose(self, key):
        """Walk the ring from the key's position on."""
        position = plain_mix(key, self.salt) >> 32
        after = [bin_ for at, bin_ in self.ring if at >= position]
        before = [bin_ for at, bin_ in self.ring if at < position]
        return next(b for b in after + before if self.loads[b] < self.most * self.total)
