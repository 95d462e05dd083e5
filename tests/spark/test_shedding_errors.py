"""Mistakes about shedding are refused before a job starts; what is odd at run time is told."""

import time

import pytest
from flows import TIMED, WAIT_S, drop, run, source, sunk, timed_files

import penstock
from penstock.errors import PenstockError

pytestmark = pytest.mark.spark

AVERAGE = penstock.shedding.average("2 s")
SHEDDING = {"shed": penstock.shedding.LoadAware(target=AVERAGE), "arrival": "ts"}


def same():
    def same(record):
        return record

    return same


def timed(spark, rows=10):
    return spark.range(0, rows, 1, 2).selectExpr(
        "concat('e', id % 3) AS entity",
        "int(id) AS n",
        "timestamp_seconds(id) AS ts",
        "IF(id % 2 = 0, 'high', 'low') AS priority",
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"arrival": None}, "arrival must name the column .*as arrival='timestamp'.*got None"),
        ({"arrival": "n"}, r"arrival must be a timestamp; n is int\. Convert it.*timestamp_mil"),
        ({"arrival": "priority"}, "arrival must be a timestamp; priority is string"),
        ({"arrival": "tss"}, "arrival must fit.*which has entity, n, ts, priority; got tss"),
        ({"protect": "n + 1"}, r"protect must be a condition; n \+ 1 is int"),
        ({"protect": "prio = 'high'"}, "protect must fit.*which has entity.*got prio = 'high'"),
        ({"protect": "prio = = 'high'"}, "protect must fit.*got prio = = 'high'"),
        ({"spill": ""}, "spill must be the path of a folder; got ''"),
        ({"spill": 5}, "spill must be the path of a folder; got 5"),
        ({"spill": "nowhere://x/y"}, "spill must be a folder of a file system that Arrow knows"),
        (
            {"shed": "las"},
            r"shed must be a shedder, such as penstock.shedding.LoadAware\(.*got 'las'",
        ),
        (
            {"shed": AVERAGE},
            r"shed must be a shedder, such as penstock.shedding.LoadAware\(.*got Target",
        ),
        (
            {"shed": penstock.shedding.LoadAware},
            r"shed must be a shedder, such as penstock.shedding.LoadAware\(",
        ),
        ({"shed": None}, r"arrival needs a shedder; give shed=penstock.shedding.LoadAware\(...\)"),
        (
            {"shed": None, "arrival": None, "protect": "n = 1"},
            r"protect needs a shedder; give shed=penstock.shedding.LoadAware\(...\)",
        ),
        (
            {"shed": None, "arrival": None, "spill": "spilled"},
            r"spill needs a shedder; give shed=penstock.shedding.LoadAware\(...\)",
        ),
        (
            {"grouping": "posg_as_published"},
            r"shed: LoadAware learns from SpaceSaving\(.*\), which the grouping "
            "ProactiveAsPublished does not measure; use another shedder",
        ),
    ],
)
def test_mistakes_are_refused_before_a_job_starts(spark, nothing_runs, wrong, message):
    arguments = {"key": "entity", "schema": TIMED, "instances": 2, **SHEDDING}
    with pytest.raises(PenstockError, match=f"(?s){message}"):
        timed(spark).transform(penstock.balance(same(), **{**arguments, **wrong}))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"protect": True}, "protect must.*True"),
        ({"arrival": 5}, "arrival must.*5"),
    ],
)
def test_what_is_not_an_expression_is_refused(spark, nothing_runs, wrong, message):
    arguments = {"key": "entity", "schema": TIMED, "instances": 2, **SHEDDING}
    with pytest.raises(PenstockError, match=f"(?s){message}"):
        timed(spark).transform(penstock.balance(same(), **{**arguments, **wrong}))


def test_a_folder_that_cannot_be_written_is_refused(spark, nothing_runs, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        op = penstock.balance(
            same(), key="entity", schema=TIMED, instances=2, spill=str(path), **SHEDDING
        )
        with pytest.raises(PenstockError, match="spill must be a folder that can be written") as e:
            timed(spark).transform(op)
        assert repr(str(path)) in str(e.value)
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize(
    "taken",
    [
        "penstock_reason",
        "penstock_cost_ms",
        "Penstock_Reason",
    ],
)
def test_names_that_a_spill_adds_are_refused(spark, nothing_runs, tmp_path, taken):
    frame = timed(spark).withColumnRenamed("priority", taken)
    arguments = {"key": "entity", "schema": frame.schema, "instances": 2, **SHEDDING}
    spilling = penstock.balance(same(), spill=str(tmp_path / "spill"), **arguments)
    with pytest.raises(PenstockError, match=f"spill adds columns .*; rename {taken} of the"):
        frame.transform(spilling)
    frame.transform(penstock.balance(same(), **arguments))


@pytest.mark.parametrize(
    ("target", "more", "message"),
    [
        (SHEDDING["shed"], {}, r"target: LoadAware needs measured costs.*penstock.balance\("),
        ("2 s", {}, "target must be a target, such as penstock.shedding.average.*got '2 s'"),
        (AVERAGE, {"arrival": "n"}, "arrival must be a timestamp; n is int"),
        (AVERAGE, {"arrival": "tss"}, "arrival must fit.*got tss"),
        (AVERAGE, {"arrival": None}, "arrival must name the column.*got None"),
        (AVERAGE, {"key": "entitty"}, "key must name columns.*entitty"),
        (AVERAGE, {"protect": "n + 1"}, r"protect must be a condition; n \+ 1 is int"),
        (AVERAGE, {"name": "my shedder/1"}, "name must have letters.*my shedder/1"),
    ],
)
def test_mistakes_of_a_shedder_in_front_are_refused(spark, nothing_runs, target, more, message):
    with pytest.raises(PenstockError, match=f"(?s){message}"):
        timed(spark).transform(penstock.shed(target, **{"arrival": "ts", **more}))


@pytest.mark.parametrize("folder", ["missing", "empty", "hidden"])
def test_there_must_be_something_to_replay(spark, nothing_runs, tmp_path, folder):
    (tmp_path / "empty").mkdir()
    (tmp_path / "hidden" / "penstock_batch=0").mkdir(parents=True)
    (tmp_path / "hidden" / "penstock_batch=0" / ".part").write_text("not complete")
    path = str(tmp_path / folder)
    with pytest.raises(
        PenstockError, match="has no spilled records yet, so give their schema"
    ) as caught:
        penstock.replay(spark, path)
    assert repr(path) in str(caught.value)
    with pytest.raises(PenstockError, match="every must be"):
        penstock.replay(spark, path, every=0)


def warnings_of(op):
    return op.stats().warnings


def test_arrivals_that_are_unknown_or_in_the_future_are_told_and_nothing_is_lost(spark, tmp_path):
    files = timed_files(3)
    for one in (one for records in files[1:] for one in records):
        one["ts"] = [None, "2999-01-01T00:00:00Z", one["ts"]][one["n"] % 3]
    drop(tmp_path / "in", *files)
    op = penstock.balance(same(), key="entity", schema=TIMED, instances=2, **SHEDDING)
    run(source(spark, tmp_path / "in", TIMED).transform(op), tmp_path)
    # All of the first batch, and what has just arrived of the others.
    expected = [one for records in files for one in records if one["n"] < 20 or one["n"] % 3 < 2]
    assert sorted(row.n for row in sunk(spark, tmp_path)) == [one["n"] for one in expected]
    stats = op.stats()
    assert (stats.received, stats.shed, stats.processed) == (60, 60 - len(expected), len(expected))
    assert len(stats.warnings) == 2
    [undated] = [one for one in stats.warnings if "no time of arrival" in one]
    [early] = [one for one in stats.warnings if "arrive in the future" in one]
    assert undated.startswith("6 records of batch 2 ")  # 42, 45, ..., 57
    assert early.startswith("7 records of batch 2 ")  # 40, 43, ..., 58
    kinds = [entry["reason"] for entry in op.journal.entries() if entry["kind"] == "warning"]
    assert len(kinds) == 4


def test_a_target_that_cannot_hold_is_told(spark, tmp_path):
    drop(tmp_path / "in", *timed_files(2))
    op = penstock.balance(
        same(), key="entity", schema=TIMED, instances=2, protect="n >= 0", **SHEDDING
    )
    run(source(spark, tmp_path / "in", TIMED).transform(op), tmp_path)
    assert sorted(row.n for row in sunk(spark, tmp_path)) == list(range(40))
    [warning] = warnings_of(op)
    assert warning.startswith("all records of batch 1 are protected; the target (waiting time")
    assert "cannot hold" in warning


@pytest.mark.parametrize("spills", [False, True])
def test_a_batch_that_is_shed_as_a_whole_is_told(spark, tmp_path, spills):
    drop(tmp_path / "in", *timed_files(2))
    more = {"spill": str(tmp_path / "spill")} if spills else {}
    op = penstock.balance(same(), key="entity", schema=TIMED, instances=2, **SHEDDING, **more)
    run(source(spark, tmp_path / "in", TIMED).transform(op), tmp_path)
    [warning] = warnings_of(op)
    assert warning.startswith("all 20 records of batch 1 were shed: they had waited too long")


@pytest.mark.parametrize("interval", ["5 seconds", "1 second"])
def test_a_trigger_that_is_slower_than_the_target_is_told(spark, tmp_path, interval):
    drop(tmp_path / "in", *timed_files(1))
    op = penstock.shed(penstock.shedding.average("2 s"), arrival="ts")
    query = (
        source(spark, tmp_path / "in", TIMED)
        .transform(op)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime=interval)
        .start()
    )
    try:
        end = time.monotonic() + WAIT_S
        while not op.all_stats():
            assert query.isActive
            assert time.monotonic() < end
            time.sleep(0.05)
        warnings = warnings_of(op)
    finally:
        query.stop()
    if interval == "5 seconds":
        assert len(warnings) == 1
        assert warnings[0].startswith("batches start every 5000 ms, so records wait longer than")
        assert "trigger more often" in warnings[0]
    else:
        assert warnings == ()
