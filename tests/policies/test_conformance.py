"""Every policy that is found by discovery passes the conformance suite."""

import pytest

from penstock.checks import discover, example, yield_checks

CASES = [
    pytest.param(check, id=f"{name}-{check_name}")
    for name, cls in discover().items()
    for check_name, check in yield_checks(example(cls))
]


@pytest.mark.parametrize("check", CASES)
def test_conformance(check):
    check()


def test_discovery_finds_what_we_ship():
    assert {"round_robin", "key_hash", "posg", "posg_as_published", "full_knowledge"} <= set(
        discover()
    )
    assert {"count_min", "space_saving", "exact"} <= set(discover())
