"""Claims: statements of a paper and goals of ours, each beside our measurement."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict, Unpack

from penstock.errors import PenstockError

Value = float | str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement of a paper, a goal of ours, or a statement in words with our goal for it.

    Attributes:
        claim: statement in words.
        paper: value or words of the paper; None if the paper has none.
        source: figure or section of the paper that has them; None if the paper has none.
        goal: our own goal, or our limit for the paper's words; None if the paper's value is tested.
        ours: value that we measure.
        tolerance: difference that is allowed between our value and the tested one; None if it is
            zero.
        holds: whether our value confirms the statement.
    """

    claim: str
    paper: Value | None = None
    source: str | None = None
    goal: Value | None = None
    ours: Value
    tolerance: Value | None = None
    holds: bool

    def __post_init__(self) -> None:
        """Refuse a value of the paper without its source, and a claim with nothing to test."""
        if (self.paper is None) != (self.source is None):
            raise PenstockError(
                "paper must come with its source; "
                f"got {self.paper!r} and {self.source!r} in {self.claim!r}"
            )
        if self.paper is None and self.goal is None:
            raise PenstockError(f"a claim must have paper or goal; got none in {self.claim!r}")


# Relative error that sums of floating-point numbers may have.
_ROUNDING = 1e-9


class Basis(TypedDict, total=False):
    """The number that a claim is tested against; see `Claim`."""

    paper: Value | None
    source: str | None
    goal: float | None


def at_least(claim: str, ours: float, **basis: Unpack[Basis]) -> Claim:
    """Claim that our value is not below the goal, or the paper's value if there is no goal."""
    limit = _limit(basis)
    least = limit - _ROUNDING * abs(limit)
    return _tested(claim, ours, lambda v: v >= least, **basis)


def at_most(
    claim: str, ours: float, *, tolerance: float | None = None, **basis: Unpack[Basis]
) -> Claim:
    """Claim that our value is not above the goal, or the paper's value if there is no goal."""
    limit = _limit(basis) + (tolerance or 0.0)
    most = limit + _ROUNDING * abs(limit)
    return _tested(claim, ours, lambda v: v <= most, tolerance=tolerance, **basis)


def above(claim: str, ours: float, **basis: Unpack[Basis]) -> Claim:
    """Claim that our value is above the goal, or the paper's value if there is no goal."""
    limit = _limit(basis)
    return _tested(claim, ours, lambda v: v > limit, **basis)


def below(claim: str, ours: float, **basis: Unpack[Basis]) -> Claim:
    """Claim that our value is below the goal, or the paper's value if there is no goal."""
    limit = _limit(basis)
    return _tested(claim, ours, lambda v: v < limit, **basis)


def near(claim: str, ours: float, *, tolerance: float, **basis: Unpack[Basis]) -> Claim:
    """Claim that our value differs from the tested one by not more than the tolerance."""
    middle = _limit(basis)
    most = tolerance + _ROUNDING * abs(middle)
    return _tested(claim, ours, lambda v: abs(v - middle) <= most, tolerance=tolerance, **basis)


def ordered(
    claim: str,
    first: float,
    second: float,
    *,
    paper: str | None = None,
    source: str | None = None,
    goal: str | None = None,
    grows: bool = True,
) -> Claim:
    """Claim that the second of two values is larger than the first, or smaller."""
    compare = operator.gt if grows else operator.lt
    return Claim(
        claim=claim,
        paper=paper,
        source=source,
        goal=goal,
        ours=f"{first:.4g} -> {second:.4g}",
        holds=bool(compare(second, first)),
    )


def _limit(basis: Basis) -> float:
    goal = basis.get("goal")
    limit = basis.get("paper") if goal is None else goal
    if limit is None or isinstance(limit, str):
        raise PenstockError(f"a claim in words must have a number as its goal; got {limit!r}")
    return limit


def _tested(
    claim: str,
    ours: float,
    holds: Callable[[float], bool],
    *,
    tolerance: float | None = None,
    **basis: Unpack[Basis],
) -> Claim:
    return Claim(
        claim=claim,
        ours=_shown(ours, holds),
        tolerance=tolerance,
        holds=bool(holds(ours)),
        **basis,
    )


def _shown(number: float, holds: Callable[[float], bool]) -> float:
    """Return the number with as few digits as are needed to see whether the claim holds."""
    wanted = holds(number)
    for digits in range(max(4, len(f"{abs(number):.0f}")), 17):
        shown = float(f"{number:.{digits}g}")
        if holds(shown) == wanted:
            return shown
    return float(number)
