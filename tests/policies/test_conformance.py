"""Every policy that is found by discovery passes the conformance suite."""

import pytest

from penstock.checks import discover, example, yield_checks

CASES = [
    pytest.param(check, id=f"{cls.family}-{cls.name}-{check_name}")
    for cls in discover()
    for check_name, check in yield_checks(example(cls))
]


@pytest.mark.parametrize("check", CASES)
def test_conformance(check):
    check()


def test_discovery_finds_what_we_ship():
    found = {(cls.family, cls.name) for cls in discover()}
    groupings = "round_robin", "key_hash", "posg", "posg_as_published", "full_knowledge"
    shedders = "never", "random_drop", "mean_cost", "las", "las_as_published", "full_knowledge"
    assert {("grouping", name) for name in groupings} <= found
    assert {("shedder", name) for name in shedders} <= found
    placers = "local_search", "milp", "albic", "flux", "cola", "cg"
    assert {("placer", name) for name in placers} <= found
    assert {("cost model", name) for name in ("count_min", "space_saving", "exact")} <= found
