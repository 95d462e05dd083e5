"""The choice among outcomes: the frontier, and the cheapest setting that holds a target."""

from collections.abc import Sequence

from penstock.rehearsal.whatif import Outcome

# Shares of shed records that count as none.
_HARDLY_ANY = 0.001


def frontier(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes that no other one beats in slots, shed records and latency.

    Settings that do not keep up are left out: their latency depends on the length of the trace.
    """
    good = [one for one in outcomes if one.keeps_up]
    best = [one for one in good if not any(_beats(other, one) for other in good)]
    return sorted(best, key=lambda one: (one.slots, one.latency_s))


def _beats(one: Outcome, other: Outcome) -> bool:
    mine = one.slots, one.shed, one.latency_s
    theirs = other.slots, other.shed, other.latency_s
    return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))


def recommended(outcomes: Sequence[Outcome]) -> Outcome | None:
    """Return the cheapest outcome that holds the target; None if none does.

    Settings without shedding come first; then fewer slots, fewer shed records, less latency.
    """
    holding = [one for one in outcomes if one.holds]
    return min(
        holding,
        key=lambda one: (one.shed > _HARDLY_ANY, one.slots, one.shed, one.latency_s),
        default=None,
    )
