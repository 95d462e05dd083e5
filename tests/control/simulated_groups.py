"""Key groups of a query in virtual time: the placement loop plans where they run."""

import numpy as np

from penstock.control.keygroups import KeyGroups, Ran
from penstock.control.placement_loop import PlacementLoop
from penstock.policies.placement import LocalSearch, Placer

INTERVAL_MS = 1_000.0
SETTLED = 4
FOUR = {"1": 1, "2": 1, "3": 1, "4": 1}


class Simulated:
    """A cluster in which moves happen as planned, and key groups load their state first.

    Key groups that come to an executor may have more to do from then on than the plan could know.
    It ends with a period in which nothing is moved.
    """

    def __init__(self, busy_ms, where, executors, *, slow=None, grows=None, noise=0.0, seed=0):
        self.busy_ms = dict(enumerate(busy_ms))
        self.where = {(0, i): place for i, place in enumerate(where)}
        self.executors = dict(executors)
        self.slow, self.grows, self.growth = slow or {}, grows or {}, {}
        self.noise, self.random = noise, np.random.default_rng(seed)
        self.groups = KeyGroups()
        self._ran_at = {}

    def work_ms(self, group):
        """What there is to do: the more records, the more."""
        return self.busy_ms[group[1]] * self.growth.get(group, 1.0)

    def taken_ms(self, group):
        return self.work_ms(group) * self.slow.get(self.where[group], 1.0)

    def run(self, batches=SETTLED):
        for _ in range(batches):
            noise = self.random.uniform(1 - self.noise, 1 + self.noise, len(self.where))
            batch = [
                Ran(
                    group,
                    place,
                    self.taken_ms(group) * noise[group[1]]
                    + 5_000.0 * (self._ran_at.get(group) != place),
                    10.0 * self.work_ms(group),
                )
                for group, place in self.where.items()
            ]
            self._ran_at = dict(self.where)
            self.groups.add(batch, INTERVAL_MS)

    def follow(self, plan):
        assert set(plan.moves.values()) <= set(self.executors)
        self.where.update(plan.moves)
        self.growth = {g: self.grows.get(target, 1.0) for g, target in plan.moves.items()}

    def lose(self, executor):
        """Spark runs what an executor had on the others."""
        del self.executors[executor]
        left = list(self.executors)
        lost = [group for group, place in self.where.items() if place == executor]
        self.where |= {group: left[i % len(left)] for i, group in enumerate(lost)}

    def fullness(self):
        """How long each executor's slots are busy."""
        full = dict.fromkeys(self.executors, 0.0)
        for group, place in self.where.items():
            full[place] += self.taken_ms(group) / self.executors[place]
        return np.array(list(full.values()))

    def excess(self):
        return self.fullness().max() / self.fullness().mean() - 1


class Told(Placer):
    """Places key groups by a function."""

    def __init__(self, where, **budget):
        super().__init__(**budget)
        self.where = where

    def place(self, cluster):
        return self.where(cluster.placement.copy()), "told so"


def gathered(placement):
    """Bring one more key group to the first worker: it has more than enough already."""
    placement[np.flatnonzero(placement != 0)[0]] = 0
    return placement


def swapped(placement):
    """Exchange key groups of the first two workers: nothing changes, as far as one knows."""
    first, second = (np.flatnonzero(placement == worker)[-1] for worker in (0, 1))
    placement[[first, second]] = 1, 0
    return placement


def zipf(count=40, busiest_ms=600.0):
    return busiest_ms / np.arange(1, count + 1)


def loop_of(simulated, placer=None, **more):
    placer = placer or LocalSearch(max_migrations=10)
    return PlacementLoop("words", placer, simulated.groups, **more)


def even(executors=2, groups=20, busy_ms=100.0):
    """Executors that have the same to do."""
    names = [str(i + 1) for i in range(executors)]
    return Simulated([busy_ms] * (groups * executors), groups * names, dict.fromkeys(names, 1))


def uneven(distance=20.0, worse=10.0, executors=2):
    """Like even, but the first executor has more to do, and after each swap still more.

    Both in points; loads are as before when nothing is swapped for a period.
    """
    simulated = even(executors)
    simulated.busy_ms[0] += distance * 10 * executors / (executors - 1)
    simulated.grows = {"1": 1 + worse / 10, "2": 1 - worse / 10}
    return simulated


def worsening(simulated=None, **more):
    """A loop whose every plan makes things worse than they were, and than it promised."""
    simulated = simulated or uneven()
    return simulated, loop_of(simulated, Told(swapped), **more)


def period(simulated, loop, batches=SETTLED, **more):
    """Let batches run, plan, and move."""
    simulated.run(batches)
    plan = loop.plan(simulated.executors, **more)
    simulated.follow(plan)
    return plan


def moved_in(periods, simulated, loop):
    """In which periods something was moved."""
    return [bool(period(simulated, loop).moves) for _ in range(periods)]


def journal_of(loop, kind):
    return [entry for entry in loop.journal.entries() if entry["kind"] == kind]


def last_reason(loop, kind="plan"):
    return journal_of(loop, kind)[-1]["reason"]


def outcome_of(loop):
    outcome = journal_of(loop, "outcome")[-1]
    return [outcome[key] for key in ("before", "expected", "achieved")]


UNKNOWN = "executors have changed: the plan cannot be judged"
