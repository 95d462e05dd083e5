"""Watermarks survive a balanced operator, or the user is told."""

import logging

import pytest
from flows import drop, run, source, sunk
from pyspark.sql import functions as sf

import penstock

pytestmark = pytest.mark.spark

GIVEN = "entity string, ts timestamp"
HOURS = [f"2024-01-01T{hour:02}:30:00Z" for hour in range(6)]


@pytest.fixture
def events(spark, tmp_path):
    drop(tmp_path / "in", *[[{"entity": "e", "ts": ts}] for ts in HOURS])
    return source(spark, tmp_path / "in", GIVEN).withWatermark("ts", "0 seconds")


def kept(schema, **more):
    return penstock.balance(
        lambda record: record, key="entity", schema=schema, instances=2, name="kept", **more
    )


def windows(frame):
    return frame.groupBy(sf.window("ts", "1 hour")).count()


@pytest.mark.parametrize("as_text", [True, False], ids=["text", "schema"])
def test_windows_in_append_mode_close_behind_an_operator(spark, tmp_path, events, as_text):
    op = kept(GIVEN if as_text else events.schema)
    run(windows(events.transform(op)), tmp_path)
    closed = sunk(spark, tmp_path)
    assert len(closed) == len(HOURS) - 1  # the last window is still open
    assert all(row["count"] == 1 for row in closed)


def test_the_mark_is_on_the_column_of_the_same_name_and_type(events):
    found = events.transform(kept("ts timestamp, extra int, entity string"))
    marked = [field.name for field in found.schema if field.metadata]
    assert marked == ["ts"]
    delay = {field.name: field.metadata for field in events.schema}["ts"]
    assert found.schema["ts"].metadata == delay


@pytest.mark.parametrize("schema", ["entity string", "entity string, ts string"])
def test_a_lost_watermark_is_told(events, caplog, schema):
    with caplog.at_level(logging.WARNING, "penstock"):
        events.transform(kept(schema))
    (warning,) = [one.getMessage() for one in caplog.records]
    assert warning.startswith("kept: the watermark of ts is lost")
    assert "withWatermark after the operator" in warning


def test_without_a_watermark_nothing_is_told(spark, caplog):
    frame = spark.createDataFrame([("e", 1)], "entity string, n int")
    with caplog.at_level(logging.WARNING, "penstock"):
        frame.transform(kept("entity string"))
    assert not caplog.records


def test_a_replay_does_not_change_the_event_time(spark, tmp_path, events):
    with pytest.raises(penstock.PenstockError, match="arrival must not be the column of the wat"):
        penstock.replay(spark, str(tmp_path / "spill"), arrival="ts", schema=events.schema)
