"""Executors come and go on a real cluster: every record is there exactly once."""

import json

import pytest
from flows import bag, sunk
from jobs_of import finished
from pyspark.sql import Row

pytestmark = pytest.mark.spark


def expected(sent):
    return bag(Row(entity=f"e{n % 5}", n=n) for n in range(sent))


@pytest.fixture
def place(tmp_path, way):
    """The folder of a query that was scaled in one way."""
    finished("scale", tmp_path, way, wait_s=1_200)
    return tmp_path


@pytest.mark.apart
@pytest.mark.parametrize("way", ["killed", pytest.param("decommissioned", marks=pytest.mark.long)])
def test_executors_follow_the_scaler_and_no_record_is_lost(spark, place, way):
    stats = json.loads((place / way / "stats.json").read_text())
    assert stats["executors"] == [1, 3, 2]
    assert all(("decommission" in one) == (way == "decommissioned") for one in stats["removed"])
    assert len(stats["removed"]) == 3
    # What was learnt is next to the checkpoint.
    assert list(place.glob(f"{way}/**/penstock/@query.scaling.*"))
    assert (stats["dry_run"], stats["failures"], stats["active"]) == (False, 0, 3)
    assert stats["received"] == stats["processed"] == stats["sent"]
    assert bag(sunk(spark, place / way)) == expected(stats["sent"])
    entries = [json.loads(line) for line in (place / way / "journal").read_text().splitlines()]
    reasons = [entry["reason"] for entry in entries if entry["kind"] == "plan"]
    assert [reason.split("; ")[-1] for reason in reasons] == [
        "3 -> 1 executors",
        "1 -> 3 executors",
        "3 -> 2 executors",
    ]


@pytest.mark.long
@pytest.mark.parametrize("way", ["dynamic"])
def test_with_dynamic_allocation_it_only_watches(spark, place):
    stats = json.loads((place / "dynamic" / "stats.json").read_text())
    assert stats["dry_run"]
    assert stats["received"] == stats["processed"] == stats["sent"]
    assert bag(sunk(spark, place / "dynamic")) == expected(stats["sent"])
    assert "dynamicAllocation.enabled is true" in (place / "warnings.log").read_text()
