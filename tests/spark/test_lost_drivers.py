"""The driver is killed, or executors cannot reach it: no record is lost, doubled or miscounted."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from accounts import (
    committed,
    expected_totals,
    given,
    rows_of,
    spilled,
    spilled_in,
    stats_of,
    stuck_in_the_second_batch,
    totals,
)
from flows import bag, drop, saved_files, some_files, sunk, timed_files
from jobs_of import finished, kill, started, until

from penstock.control import Controller, Journal, OperatorPolicies
from penstock.policies.grouping import Factoring
from penstock.policies.seeds import SecretSeed

pytestmark = pytest.mark.spark

BALANCED = some_files(16, 30)
AGGREGATED = some_files(6, 40, entities=3)
SHED = timed_files(6)  # two of them in each batch
# A record of the ninth batch, of the third one, and of the second one waits.
STUCK = 250, 100, 55


@dataclass(frozen=True)
class Killed:
    """What was there when the driver was killed; another one has completed its work since then.

    Args:
        place: the folder that has a folder for each query.
        entries: number of entries in the journal of the balanced query.
        committed: number of batches that each query had committed.
        shed: the records that the unfinished batch had shed.
    """

    place: Path
    entries: int
    committed: list[int]
    shed: object


def entries_of(place):
    return [json.loads(line) for line in (place / "journal").read_text().splitlines()]


def knows_costs(checkpoint):
    """Whether costs are saved, so that the grouping runs as soon as it has them."""
    saved = saved_files(checkpoint, "work")
    if not saved:
        return False
    grouping = Factoring(2, capacity=1_024, seed=SecretSeed(0))  # takes over the saved seed
    controller = Controller("work", "query", OperatorPolicies(grouping), journal=Journal())
    controller.load(saved[-1].read_bytes())
    return controller.stats().state == "RUN"


@pytest.fixture(scope="module")
def killed(spark, tmp_path_factory):
    """Three queries whose driver was killed in the middle of a batch of each, and started again."""
    place = tmp_path_factory.mktemp("killed")
    folders = [place / name for name in ("balanced", "aggregated", "shed")]
    for folder, files in zip(folders, (BALANCED, AGGREGATED, SHED), strict=True):
        folder.mkdir()
        drop(folder / "in", *files)

    def under_way():
        return (
            all((folder / "stuck").exists() for folder in folders)
            and knows_costs(folders[0] / "checkpoint")
            and stuck_in_the_second_batch(folders[2])
        )

    with started("killed", place, 5, *STUCK) as process:
        until(under_way, process, "killed", place)
        kill(process)
    assert not any((folder / "stats.json").exists() for folder in folders)
    [file] = spilled_in(folders[2], 1)
    before = Killed(
        place,
        len(entries_of(folders[0])),
        [committed(folder / "checkpoint") for folder in folders],
        bag(spark.read.parquet(str(file)).collect()),
    )
    for folder in folders:
        (folder / "go").touch()
    finished("killed", place, 0, *STUCK)
    return before


def test_a_killed_driver_goes_on_with_what_it_knew(spark, killed):
    place = killed.place / "balanced"
    assert killed.committed[0] == 8
    assert bag(sunk(spark, place)) == rows_of(BALANCED)
    stats = stats_of(place)
    assert stats["received"] == stats["processed"] == 30 * (16 - 8)
    second = entries_of(place)[killed.entries :]
    assert second[0]["reason"] == "resumed with saved costs"
    plans = [entry for entry in second[1:] if entry["kind"] == "plan"]
    assert plans
    assert all("RUN" in entry["reason"] for entry in plans)


def test_a_killed_driver_goes_on_with_exact_totals(killed):
    place = killed.place / "aggregated"
    assert killed.committed[1] == 2
    assert totals(place) == expected_totals(AGGREGATED)
    stats = stats_of(place)
    assert stats["received"] == stats["processed"] == 40 * (6 - 2)


def test_a_killed_driver_keeps_each_record_once(spark, killed):
    place = killed.place / "shed"
    assert killed.committed[2] == 1
    assert spilled(spark, place) + bag(sunk(spark, place)) == given(spark, place)
    # Other records would be shed now: it was decided about them before.
    [file] = spilled_in(place, 1)
    assert bag(spark.read.parquet(str(file)).collect()) == killed.shed
    stats = stats_of(place)
    assert (stats["received"], stats["fallbacks"]) == (80, 0)
    assert stats["shed"] + stats["processed"] == 80


@pytest.fixture(scope="module")
def deaf(tmp_path_factory):
    """The folder of two queries that have lost the control channel after two of five batches."""
    place = tmp_path_factory.mktemp("deaf")
    for name, files in (("balanced", some_files(5)), ("shed", timed_files(5))):
        (place / name).mkdir()
        drop(place / name / "in", *files[:2])
        drop(place / name / "later", *files[2:], start=2)
    finished("deaf", place)
    return place


def test_without_the_control_channel_records_are_shuffled_and_counted(spark, deaf):
    place = deaf / "balanced"
    assert bag(sunk(spark, place)) == rows_of(some_files(5))
    stats = stats_of(place)
    before, after = stats["before"], stats["after"]
    assert (before["received"], before["batches"], before["fallbacks"]) == (40, 2, 0)
    assert (after["received"], after["processed"], after["batches"]) == (100, 100, 5)
    assert after["fallbacks"] == 3
    assert "the driver" in after["fallback_reason"]


def test_without_the_control_channel_nothing_is_shed(spark, deaf):
    place = deaf / "shed"  # 5 records of e1 in each file
    rows = sunk(spark, place)
    assert spilled(spark, place) + bag(rows) == given(spark, place)
    stats = stats_of(place)
    before, after = stats["before"], stats["after"]
    assert (before["received"], before["shed"], before["processed"]) == (40, 10, 30)
    assert (after["received"], after["shed"], after["processed"]) == (100, 10, 90)
    assert (before["fallbacks"], after["fallbacks"]) == (0, 3)
    assert "the driver" in after["fallback_reason"]
    assert sorted(row.n for row in rows if row.entity == "e1") == list(range(41, 100, 4))
