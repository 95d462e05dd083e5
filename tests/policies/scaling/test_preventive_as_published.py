"""The preventive scaler as published: Table 1, Equation 11, grace, and critical parents."""

import pytest
from observations import CHAIN, degree, line, observed, plan

from penstock.policies.scaling import PreventiveAsPublished, Topology

# Four instances can do 2,400 records of 100 ms in a window of 6 periods.


@pytest.mark.parametrize(
    "start, slope, expected, reason",
    [
        # Low: 345, and 222 of which there will be more.
        (100, -5, 1, "sink: low, activity 0.14, capacity 2400 records a window, 4 -> 1"),
        (20, 2, 4, "nothing to change"),
        # Medium: 1,110 and 1,290.
        (100, 10, 4, "nothing to change"),
        (300, -10, 4, "nothing to change"),
        # High: 2,010 and 2,043.
        (250, 10, 5, "sink: high and rising, activity 0.84, capacity 2400 records a window"),
        (400, -7, 4, "nothing to change"),
        # Critical: 2,820, 2,580 and 4,680.
        (300, 20, 5, "sink: critical, activity 1.18, capacity 2400 records a window, 4 -> 5"),
        (600, -20, 5, "sink: critical, activity 1.07, capacity 2400 records a window, 4 -> 5"),
        (610, 20, 8, "sink: critical, activity 1.95, capacity 2400 records a window, 4 -> 8"),
    ],
)
def test_table_1(start, slope, expected, reason):
    found = plan(PreventiveAsPublished(), sink=observed(line(start, slope)))
    assert found.degrees == {"sink": expected}
    assert found.reason.startswith(reason)


@pytest.mark.parametrize(
    "pending, expected",
    [
        (0, 4),  # 1,290 of 2,400
        (1_100, 4),  # 2,390: high, but falling
        (1_120, 5),  # 2,410
        (2_300, 6),  # 3,590
        (2_320, 7),  # 3,610
        (99_999, 8),
    ],
)
def test_equation_11_with_what_is_pending(pending, expected):
    assert degree(PreventiveAsPublished(), line(300, -10), pending=pending) == expected


@pytest.mark.parametrize("start, expected", [(100, 1), (150, 2), (160, 4)])
def test_equation_11_removes_what_is_not_needed(start, expected):
    # 345, 645 and 705 + 60 records.
    pending = 60 if start == 160 else 0
    assert degree(PreventiveAsPublished(), line(start, -5), pending=pending) == expected


def test_the_window_is_all_that_is_looked_at():
    assert degree(PreventiveAsPublished(), [9_999, *line(300, -10)]) == 4
    # Two periods: 300 and 290, so 280 and 270 of 800.
    assert degree(PreventiveAsPublished(window=2), [9_999, 300, 290]) == 4
    assert degree(PreventiveAsPublished(window=2), [9_999, 300]) == 1


def test_levels_are_parameters():
    rising = line(100, 10)  # 46%
    assert degree(PreventiveAsPublished(low=0.1, high=0.4), rising) == 5
    falling = line(300, -10)  # 54%
    assert degree(PreventiveAsPublished(low=0.6), falling) == 3


def test_one_period_makes_no_line():
    assert degree(PreventiveAsPublished(), [9_999]) == 4


def test_a_constant_load_is_not_rising():
    rates = range(330, 400, 10)
    assert {rate: degree(PreventiveAsPublished(), [rate] * 6) for rate in rates} == dict.fromkeys(
        rates, 4
    )


def test_equation_11_gives_no_more_than_fit_exactly():
    rates = range(100, 900, 100)
    found = {rate: degree(PreventiveAsPublished(), [rate] * 6, now=1) for rate in rates}
    assert found == {rate: rate // 100 for rate in rates}


@pytest.mark.parametrize("unchanged, expected", [(1, 4), (5, 4), (6, 8), (7, 8)])
def test_in_the_grace_period_nothing_changes(unchanged, expected):
    assert degree(PreventiveAsPublished(), line(600, 20), unchanged=unchanged) == expected


def test_grace_holds_in_both_directions_and_for_each_operator():
    calm = observed(line(100, -5), unchanged=2)
    busy = observed(line(600, 20), unchanged=9)
    assert plan(PreventiveAsPublished(), sink=calm).degrees == {"sink": 4}
    assert plan(PreventiveAsPublished(grace=0), sink=calm).degrees == {"sink": 1}
    found = plan(PreventiveAsPublished(), CHAIN, parse=busy, sink=calm)
    assert found.degrees == {"parse": 8, "sink": 4}


def test_grace_can_be_longer_than_the_window():
    scaler = PreventiveAsPublished(window=2, grace=6)
    assert degree(scaler, line(600, 20), unchanged=3) == 4


@pytest.mark.parametrize("combine, expected", [("max", 8), ("min", 2)])
def test_a_critical_parents_output_is_combined_with_the_childs_estimate(combine, expected):
    # The parent can send 2,400 of 4,800; the child expects 1,158 and can do 4,800.
    parse = observed([800] * 6, processed=[400] * 6)
    sink = observed(line(210, -2), 8)
    found = plan(PreventiveAsPublished(combine=combine), CHAIN, parse=parse, sink=sink)
    assert found.degrees == {"parse": 8, "sink": expected}


@pytest.mark.parametrize("combine, expected", [("max", 8), ("min", 4)])
def test_a_critical_parents_output_has_a_selectivity(combine, expected):
    # Twice 2,400 come to four instances.
    parse = observed([800] * 6, processed=[400] * 6, selectivity=2)
    sink = observed(line(300, -10))
    found = plan(PreventiveAsPublished(combine=combine), CHAIN, parse=parse, sink=sink)
    assert found.degrees["sink"] == expected


@pytest.mark.parametrize("combine", ["max", "min"])
def test_other_parents_are_not_combined(combine):
    parse = observed(line(300, -10), selectivity=10)
    sink = observed(line(300, -10))
    found = plan(PreventiveAsPublished(combine=combine), CHAIN, parse=parse, sink=sink)
    assert found.degrees == {"parse": 4, "sink": 4}


def test_one_critical_parent_is_enough_and_all_outputs_count():
    join = Topology({"left": (), "right": (), "join": ("left", "right")})
    operators = {
        "left": observed([800] * 6, processed=[400] * 6),  # 2,400 go out
        "right": observed(line(300, -10)),  # 1,290 go out
        "join": observed(line(300, -10)),
    }
    assert plan(PreventiveAsPublished(), join, **operators).degrees["join"] == 7
    few = plan(PreventiveAsPublished(combine="min"), join, **operators)
    assert few.degrees["join"] == 4
