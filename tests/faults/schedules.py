"""Seeded schedules of faults: the same seed yields the same schedule, and a failing one shrinks."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# The kinds of faults, and the queries that each of them can hit; none means every query.
STATEFUL = ("windows", "attached", "all")
SHEDDING = ("shed", "replay", "all")
KEEPING = ("letters", *SHEDDING)
KINDS: dict[str, tuple[str, ...]] = {
    "executor killed": (),
    "executor suspended": (),
    "worker killed": (),
    "driver killed": (),
    "query restarted": (),
    "channel closed": (),
    "channel blocked": (),
    "channel garbage": (),
    "disk full": (),
    "disk read-only": (),
    "snapshot damaged": (),
    "journal damaged": (),
    "pin damaged": SHEDDING,
    "kept file damaged": KEEPING,
    "clock jump": SHEDDING,
    "function fails": (),
    "slow task": (),
    "decommissioned": (),
    "scaled": (),
    "state moved": ("attached", "all"),
}
# Faults of the network, for queries on hosts of their own; disks are shared there, and never fail.
NETWORK: dict[str, tuple[str, ...]] = {
    "link down": (),
    "packets dropped": (),
    "control port blocked": (),
}
ON_HOSTS = (*NETWORK, *(kind for kind in KINDS if not kind.startswith("disk")))
QUERIES = ("balance", "letters", "shed", "replay", "windows", "attached", "all")
# A killed driver takes ten times as long as any other fault, so it is drawn less often.
_RARE = {"driver killed": 0.35}


@dataclass(frozen=True)
class Fault:
    """One fault of a schedule.

    Attributes:
        kind: kind of the fault.
        wait_s: time between the fault before it, or the progress after that, and this one.
        overlaps: whether the next fault does not wait for progress of the query.
        number: random number that chooses the executor, the file, the bytes, ...
    """

    kind: str
    wait_s: float
    overlaps: bool
    number: int

    def __str__(self) -> str:
        return f"{self.kind}{' +' if self.overlaps else ''}"


@dataclass(frozen=True)
class Schedule:
    """Faults that hit one query, one after the other."""

    seed: int
    query: str
    faults: tuple[Fault, ...]

    def only(self, kept: Sequence[int]) -> "Schedule":
        """The same schedule with some of its faults, by their numbers."""
        return Schedule(self.seed, self.query, tuple(self.faults[i] for i in kept))


def schedule(
    seed: int,
    *,
    faults: int = 10,
    queries: Sequence[str] = QUERIES,
    kinds: Sequence[str] = tuple(KINDS),
) -> Schedule:
    """The schedule of a seed.

    Args:
        seed: seed of the schedule.
        faults: number of its faults.
        queries: queries to choose from.
        kinds: kinds to choose from; those that cannot hit the query are left out.
    """
    generator = random.Random(seed)  # noqa: S311 - a test
    fitting = [one for one in QUERIES if any(hits(kind, one) for kind in kinds)]
    # Drawn from all of them: a query that is asked for gets the faults that it had when it failed.
    query = generator.choice(fitting)
    if query not in queries:
        asked = [one for one in fitting if one in queries]
        query = random.Random(f"query {seed}").choice(asked)  # noqa: S311 - a test
    possible = [kind for kind in kinds if hits(kind, query)]
    weights = [_RARE.get(kind, 1.0) for kind in possible]
    chosen = generator.choices(possible, weights, k=faults)
    return Schedule(seed, query, tuple(_fault(generator, kind) for kind in chosen))


def hits(kind: str, query: str) -> bool:
    """Whether a kind of faults can hit a query."""
    queries = (KINDS | NETWORK)[kind]
    return not queries or query in queries


def _fault(generator: random.Random, kind: str) -> Fault:
    return Fault(
        kind,
        wait_s=round(generator.uniform(0, 0.8), 2),
        overlaps=generator.random() < 0.4,
        number=generator.randrange(2**32),
    )


def shrunk(numbers: Sequence[int], fails: Callable[[Sequence[int]], bool], tries: int = 12):
    """Few faults of a failing schedule that still fail, by halving and leaving out (ddmin).

    Args:
        numbers: numbers of the faults that fail together.
        fails: function that runs some of the faults again, and returns whether that fails.
        tries: largest number of runs.
    """
    kept, parts = list(numbers), 2
    while len(kept) > 1 and tries > 0:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            fewer = kept[:start] + kept[start + size :]
            tries -= 1
            if fewer and fails(fewer):
                kept, parts = fewer, max(2, parts - 1)
                break
            if tries <= 0:
                break
        else:
            if parts >= len(kept):
                break
            parts = min(len(kept), 2 * parts)
    return kept
