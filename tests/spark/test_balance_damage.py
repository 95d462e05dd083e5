"""Saved costs are damaged: no record is lost, and costs are learnt again."""

import pytest
from accounts import rows_of
from flows import NUMBERED, bag, drop, run, some_files, source, sunk

import penstock
from penstock.control import Controller, Journal, OperatorPolicies
from penstock.policies.grouping import Factoring, KeyHash, ProactiveAsPublished

pytestmark = pytest.mark.spark


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
