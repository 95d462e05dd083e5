"""Drivers and the control channel die, files are damaged: no record is lost."""

import json

import pytest
from flows import NUMBERED, bag, drop, run, saved_files, some_files, source, sunk
from jobs_of import finished, kill, started, until
from pyspark.sql import Row

import penstock
from penstock.control import Controller, Journal, OperatorPolicies
from penstock.policies.grouping import Factoring, KeyHash, ProactiveAsPublished
from penstock.policies.seeds import SecretSeed

pytestmark = pytest.mark.spark


def rows_of(files):
    return bag(Row(**record) for records in files for record in records)


@pytest.mark.apart
def test_without_the_control_channel_records_are_shuffled_and_counted(spark, tmp_path):
    files = some_files(5)
    drop(tmp_path / "in", *files[:2])
    drop(tmp_path / "later", *files[2:], start=2)
    finished("deaf", tmp_path)
    assert bag(sunk(spark, tmp_path)) == rows_of(files)
    stats = json.loads((tmp_path / "stats.json").read_text())
    before, after = stats["before"], stats["after"]
    assert (before["received"], before["batches"], before["fallbacks"]) == (40, 2, 0)
    assert (after["received"], after["processed"], after["batches"]) == (100, 100, 5)
    assert after["fallbacks"] == 3
    assert "the driver" in after["fallback_reason"]


def knows_costs(checkpoint):
    """Whether costs are saved, so that the grouping runs as soon as it has them."""
    saved = saved_files(checkpoint, "work")
    if not saved:
        return False
    grouping = Factoring(2, capacity=1_024, seed=SecretSeed(0))  # takes over the saved seed
    controller = Controller("work", "query", OperatorPolicies(grouping), journal=Journal())
    controller.load(saved[-1].read_bytes())
    return controller.stats().state == "RUN"


@pytest.mark.apart
def test_a_killed_driver_goes_on_with_what_it_knew(spark, tmp_path):
    files = some_files(40, 30)
    drop(tmp_path / "in", *files)
    commits = tmp_path / "checkpoint" / "commits"

    def under_way():
        return knows_costs(tmp_path / "checkpoint") and len(list(commits.glob("[0-9]*"))) >= 3

    with started("stream", tmp_path, 5) as process:
        until(under_way, process, "stream", tmp_path)
        kill(process)
    assert not (tmp_path / "stats.json").exists()
    written = len((tmp_path / "journal").read_text().splitlines())
    finished("stream", tmp_path, 0)
    assert bag(sunk(spark, tmp_path)) == rows_of(files)
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert 0 < stats["received"] == stats["processed"] < 1_200
    lines = (tmp_path / "journal").read_text().splitlines()[written:]
    second = [json.loads(line) for line in lines]
    assert second[0]["reason"] == "resumed with saved costs"
    plans = [entry for entry in second[1:] if entry["kind"] == "plan"]
    assert all("RUN" in entry["reason"] for entry in plans)


def learnt(grouping):
    return Controller("hurt", "query", OperatorPolicies(grouping), journal=Journal()).save()


@pytest.mark.parametrize(
    "damaged",
    [
        learnt(Factoring(2, capacity=1_024))[:500],
        b"",
        b"garbage",
        b"\x00" * 10_000,
        learnt(ProactiveAsPublished(2)),
        learnt(KeyHash(2)),
        Factoring(2, capacity=1_024).snapshot(),
    ],
    ids=["truncated", "empty", "garbage", "zeros", "published", "key_hash", "policy"],
)
def test_damaged_costs_are_learnt_anew(spark, tmp_path, caplog, damaged):
    files = some_files(2)
    drop(tmp_path / "in", *files)
    saved = tmp_path / "out-checkpoint" / "penstock" / "hurt.snapshot.7"
    saved.parent.mkdir(parents=True)
    saved.write_bytes(damaged)
    op = penstock.balance(
        lambda record: record, key="entity", schema=NUMBERED, instances=2, name="hurt"
    )
    run(source(spark, tmp_path / "in").transform(op), tmp_path)
    assert bag(sunk(spark, tmp_path)) == rows_of(files)
    warnings = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "hurt.snapshot.7 cannot be used, so costs are learnt again" in warnings[0]
    stats = op.stats()
    assert (stats.received, stats.processed, stats.fallbacks) == (40, 40, 0)
    plans = [entry["reason"] for entry in op.journal.entries() if entry["kind"] == "plan"]
    assert ["ROUND ROBIN" in reason for reason in plans] == [True, False]
