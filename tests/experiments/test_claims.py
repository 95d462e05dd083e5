"""Claims: what they compare, what they print, and that each of them can be true and false."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.experiments import (
    EXPERIMENTS,
    las_spark,
)
from penstock.experiments.claims import Claim, above, at_least, at_most, below, near, ordered
from penstock.experiments.results import Row
from penstock.experiments.tables import BEGIN, END, markdown, shown, stored, with_tables

PAPER = {"paper": 1.25, "source": "Figure 5"}


# One claim.


@pytest.mark.parametrize(
    "test, ours, holds",
    [
        (at_least, 1.25, True),
        (at_least, 1.2499, False),
        (at_most, 1.25, True),
        (at_most, 1.2501, False),
        (above, 1.25, False),
        (above, 1.2501, True),
        (below, 1.25, False),
        (below, 1.2499, True),
    ],
)
def test_comparisons_mean_what_they_say(test, ours, holds):
    assert test("x", ours, **PAPER).holds is holds
    assert test("x", ours, goal=1.25).holds is holds
    assert not test("x", float("nan"), goal=1.25).holds


def test_our_limit_is_tested_where_the_paper_has_words_or_another_number():
    assert at_most("x", 1.5, paper="close to zero", source="Figure 9", goal=2.0).holds
    assert not at_most("x", 1.5, paper=2.0, source="Figure 9", goal=1.0).holds


def test_a_tolerance_is_part_of_the_claim():
    assert near("x", 101, paper=102, source="Figure 5", tolerance=1).holds
    assert not near("x", 100.9, paper=102, source="Figure 5", tolerance=1).holds
    assert near("x", 103, paper=102, source="Figure 5", tolerance=1).tolerance == 1
    assert at_most("x", 0.0101, goal=0.01, tolerance=0.0001).holds
    assert not at_most("x", 0.0102, goal=0.01, tolerance=0.0001).holds
    assert at_most("x", 1, goal=2).tolerance is None


def test_numbers_in_order():
    up = ordered("x", 1.0, 2.0, paper="increases", source="Figure 8")
    assert up.holds
    assert up.ours == "1 -> 2"
    assert not ordered("x", 2.0, 2.0, goal="grows").holds
    assert ordered("x", 2.0, 1.0, goal="falls", grows=False).holds
    assert not ordered("x", 1.0, 2.0, goal="falls", grows=False).holds


@pytest.mark.parametrize("ours", [1.25000004, 1.2499999999, 0.000123456, 18_361.65, 1 / 3])
def test_the_printed_number_is_on_the_side_of_the_limit_that_was_measured(ours):
    claim = at_most("x", ours, goal=1.25)
    assert (claim.ours <= 1.25) is claim.holds
    assert claim.ours == pytest.approx(ours, rel=1e-3)


def test_numbers_of_the_paper_have_a_source_and_goals_have_none():
    with pytest.raises(PenstockError, match="paper must come with its source"):
        at_least("x", 1.0, paper=1.0)
    with pytest.raises(PenstockError, match="paper must come with its source"):
        at_least("x", 1.0, source="Figure 1", goal=1.0)
    with pytest.raises(PenstockError, match="a claim must have paper or goal"):
        Claim(claim="x", ours=1.0, holds=True)
    with pytest.raises(PenstockError, match="a claim in words must have a number as its goal"):
        at_least("x", 1.0, paper="huge", source="Figure 1")


def test_the_fields_of_a_claim():
    fields = ["claim", "paper", "source", "goal", "ours", "tolerance", "holds"]
    assert list(asdict(at_least("x", 1.0, goal=1.0))) == fields


# Tables in Markdown.


def document(*claims, **params):
    made = {"streams": 3, "seed": 5} | params
    return {
        "name": "posg-x",
        "date": "2026-01-31",
        "params": made,
        "rows": [1],
        "claims": [asdict(c) for c in claims],
    }


def test_tables_have_two_columns_for_two_kinds_of_numbers():
    text = markdown(
        [document(at_least("a | b", 1.2, **PAPER), near("c", 3_000.0, goal=3_001, tolerance=2))]
    )
    lines = text.splitlines()
    assert lines[0].startswith("`posg-x` (3 streams, seeds 5 to 7; 2026-01-31;")
    assert "the same on any machine" in lines[0]
    assert lines[1] == "1 of 2 claims hold."
    assert lines[3] == "| claim | paper | source | goal | tolerance | ours | holds |"
    assert lines[5] == r"| a \| b | 1.25 | Figure 5 |  |  | 1.2 | **no** |"
    assert lines[6] == "| c |  |  | 3,001 | 2 | 3,000 | yes |"
    alone = markdown([document(streams=1, depends_on_machine="all durations")])
    assert "(seed 5; 2026-01-31; depends on the machine: all durations)" in alone


def test_rows_are_not_stored():
    assert set(stored(document())) == {"name", "date", "params", "claims"}


def test_only_the_tables_of_a_page_are_replaced():
    page = f"before\n\n{BEGIN}\noutdated\n{END}\nafter\n"
    written = with_tables(page, [document()])
    assert written.startswith("before\n")
    assert written.endswith("\nafter\n")
    assert "outdated" not in written
    assert with_tables(written, [document()]) == written
    assert "no stored result" not in written
    assert "no stored result:\n\n- `posg-y`\n" in with_tables(page, [], missing=["posg-y"])


def test_values_as_text():
    assert [shown(v) for v in (None, "all", 0, 2.5, 1234567.0)] == [
        "",
        "all",
        "0",
        "2.5",
        "1,234,567",
    ]


# No claim is always true, none is always false: random results for all experiments.

# Values of x of experiments that unfold over time.
UNFOLDING = {
    "posg-timeseries": range(2_000, 150_001, 2_000),
    "posg-spark-timeseries": range(2_500, 150_001, 2_500),
    "cg-homogeneous": range(1, 21),
    "cg-heterogeneous": range(1, 21),
    "cg-changing-capacity": range(1, 21),
    "las-timeseries": range(4_000, 140_001, 4_000),
    "las-application": range(20_000, 100_001, 20_000),
    "las-spark-timeseries": range(4_000, 140_001, 4_000),
    "las-spark-application": range(4, 41, 4),
    "las-spark": tuple(las_spark.PHASES),
    "milp-scale-in": range(1, 16),
    "milp-wikipedia": range(11, 21),
    "albic-airline": range(1, 21),
}


SPECIAL = [0.0, 0.07, 0.5, 1.0, 2.0, 7.0, 10.0, 40.0, 50.0, 61.0, 75.0, 200.0, 2_000.0]


class Drawn:
    """Random results: every series has a level and a slope for each metric, or is constant."""

    def __init__(self, name, rng):
        self.rng = rng
        self.xs = [*EXPERIMENTS[name].xs, *UNFOLDING.get(name, ())]
        if name in {"milp-scale-in", "milp-wikipedia", "albic-airline"}:
            self.xs.remove("whole")
        self.numeric = not any(isinstance(x, str) for x in self.xs)
        self.levels, self.constant, self.constants, self.found = {}, {}, {}, {}

    def rows_of(self, series, metric):
        if (series, metric) not in self.found:
            rng = self.rng
            level = self.levels.setdefault(metric, 10 ** rng.uniform(-2, 4.5))
            shapes = [rng.uniform(-2.5, 2.5) * np.linspace(-1, 1, len(self.xs))]
            shapes.append(rng.normal(0, 0.3, len(self.xs)))
            values = level * np.exp(rng.uniform(-1, 1) + shapes[rng.integers(2)])
            constant = self.constant.setdefault(metric, rng.random() < 0.1)
            if constant or rng.random() < 0.25:
                values[:] = self.constants.setdefault(metric, rng.choice(SPECIAL))
            elif self.numeric and rng.random() < 0.2:
                values = np.array(self.xs, dtype=float)
            spread = float(rng.choice([0.0, 0.3]) * rng.random())
            self.found[series, metric] = [
                Row(
                    figure="",
                    series=series,
                    x=x,
                    metric=metric,
                    mean=v,
                    se=v * spread * rng.random(),
                    n=4,
                    min=v * (1 - spread),
                    max=v * (1 + spread),
                )
                for x, v in zip(self.xs, values.tolist(), strict=True)
            ]
        return self.found[series, metric]

    def row(self, series, x, metric):
        return next(r for r in self.rows_of(series, metric) if r.x == x)

    def mean(self, series, x, metric="speedup"):
        return self.row(series, x, metric).mean

    def means(self, series, metric="speedup"):
        return {r.x: r.mean for r in self.rows_of(series, metric)}

    def series(self):
        return ["local_search", "flux", "pkg", "unrestricted", "local_search_of_10"]


def claims_of(name, rng):
    """Claims about random results, or none if a number is zero that others are divided by."""
    try:
        return EXPERIMENTS[name].claims(Drawn(name, rng))
    except ZeroDivisionError:
        return []


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_claim_can_hold_and_can_fail(name):
    rng = np.random.default_rng(1)
    seen = {}
    for _ in range(3_000):
        for claim in claims_of(name, rng):
            seen.setdefault(claim.claim, set()).add(claim.holds)
        if seen and all(len(found) == 2 for found in seen.values()):
            break
    assert {text for text, found in seen.items() if len(found) < 2} == set()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_documents_are_json_and_claims_differ(name):
    rng = np.random.default_rng(2)
    for _ in range(10):
        claims = claims_of(name, rng)
        json.dumps([asdict(claim) for claim in claims])
        assert len({claim.claim for claim in claims}) == len(claims)
