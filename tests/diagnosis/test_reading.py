"""Event logs as Spark writes them: codecs, rolling logs, and everything that can be broken."""

import json
import struct

import numpy as np
import pyarrow as pa
import pytest
from written import Writer

from penstock.diagnosis import diagnose, files, find_logs, read_log
from penstock.diagnosis.log import LogReader
from penstock.errors import PenstockError


@pytest.fixture(scope="module")
def plain():
    """The lines of a log of five batches."""
    writer = Writer(cores=8)
    for number in range(5):
        writer.batch(np.random.default_rng(number).uniform(100, 900, 40))
    return writer.lines()


def blocks(data, size=32_768):
    return [data[start : start + size] for start in range(0, len(data), size)]


def as_zstd(data):
    """One frame for each flush, as Spark writes them."""
    return b"".join(pa.compress(part, "zstd", asbytes=True) for part in blocks(data))


def as_lz4(data):
    """The blocks of lz4-java; every third one is stored as it is, and an empty one is the end."""
    out = b""
    for number, part in enumerate(blocks(data)):
        packed = part if number % 3 == 0 else pa.compress(part, "lz4_raw", asbytes=True)
        token = 0x15 if number % 3 == 0 else 0x25
        out += b"LZ4Block" + struct.pack("<BIII", token, len(packed), len(part), 7) + packed
    return out + b"LZ4Block" + struct.pack("<BIII", 0x15, 0, 0, 0)


def as_snappy(data):
    """The chunks of snappy-java, in two streams one after the other."""
    out = b""
    for half in (data[: len(data) // 2], data[len(data) // 2 :]):
        out += b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
        for part in blocks(half):
            packed = pa.compress(part, "snappy", asbytes=True)
            out += struct.pack(">i", len(packed)) + packed
    return out


CODECS = {"": bytes, ".zstd": as_zstd, ".lz4": as_lz4, ".snappy": as_snappy}


def read(path):
    (one,) = find_logs(path)
    return read_log(one)


def counts(log):
    return len(log.jobs), sum(stage.tasks().size for stage in log.stages.values())


@pytest.mark.parametrize("codec", CODECS)
def test_all_codecs_of_spark_are_read(plain, tmp_path, codec):
    path = tmp_path / f"app-1{codec}"
    path.write_bytes(CODECS[codec](plain))
    log = read(path)
    assert (counts(log), log.notes, log.version) == ((5, 200), [], "4.3.0")


@pytest.mark.parametrize("codec", CODECS)
def test_a_cut_log_gives_what_is_there(plain, tmp_path, codec):
    path = tmp_path / f"app-1{codec}.inprogress"
    data = CODECS[codec](plain)
    path.write_bytes(data[: len(data) * 3 // 4])
    log = read(path)
    assert 0 < counts(log)[1] < 200
    assert log.notes[0].startswith("The log has no end")
    assert diagnose(log).queries[0].batches in (3, 4)


def test_any_cut_is_survived(plain, tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "app-1"
    for codec, pack in CODECS.items():
        data = pack(plain)
        for end in rng.integers(30, len(data), 12):
            path.write_bytes(data[:end])
            try:
                diagnose(read(path))
            except PenstockError as error:
                assert "has no events" in str(error), codec


def test_a_damaged_log_is_survived(plain, tmp_path):
    rng = np.random.default_rng(2)
    path = tmp_path / "app-1"
    for pack in CODECS.values():
        data = bytearray(pack(plain))
        for place in rng.integers(0, len(data), 60):
            data[place] = rng.integers(256)
        path.write_bytes(data)
        try:
            diagnose(read(path))
        except PenstockError as error:
            assert "\n" not in str(error)


def test_a_rolling_log_is_read_from_its_newest_compaction_on(plain, tmp_path):
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    lines = plain.splitlines(keepends=True)
    half = len(lines) // 2
    (folder / "appstatus_app-1").touch()
    (folder / "events_1_app-1").write_bytes(b"old, and not to be read\n")
    (folder / "events_9_app-1.compact").write_bytes(b"".join(lines[:half]))
    (folder / "events_10_app-1.zstd").write_bytes(as_zstd(b"".join(lines[half:])))
    assert counts(read(folder)) == counts(read(tmp_path)) == (5, 200)
    (folder / "appstatus_app-1").rename(folder / "appstatus_app-1.inprogress")
    assert read(folder).notes[0].startswith("The log has no end")


@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n", b"no log\n" * 10, b"\x00\xff" * 1000, b'{"some": "json"}\n', b"[1, 2]\n"],
    ids=["empty", "blank", "text", "bytes", "json", "list"],
)
def test_a_file_that_is_no_log_is_one_line(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(PenstockError, match=r"event log of Spark; notes\.txt has no events"):
        read(path)


def test_missing_and_empty_folders_are_one_line(tmp_path):
    with pytest.raises(PenstockError, match="does not exist"):
        find_logs(tmp_path / "nowhere")
    with pytest.raises(PenstockError, match="has no files"):
        find_logs(tmp_path)


def test_lzf_is_refused_with_the_way_out(tmp_path):
    path = tmp_path / "app-1.lzf"
    path.write_bytes(b"ZV\x01" + bytes(100))
    with pytest.raises(PenstockError, match=r"lzf, which is not supported; set spark.eventLog.com"):
        read(path)


def test_a_line_that_is_too_long_is_skipped(plain, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "app-1"
    long = b'{"Event":"SparkListenerOther","text":"' + b"x" * (3 << 20) + b'"}\n'
    lines = plain.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:9], long, *lines[9:]]))
    log = read(path)
    assert counts(log) == (5, 200)
    assert log.notes == ["Lines of more than 64 MiB were skipped: 1."]


def test_unknown_events_and_fields_do_no_harm(plain, tmp_path):
    lines = [json.loads(line) | {"Field of Tomorrow": [1]} for line in plain.splitlines()]
    lines.insert(3, {"Event": "com.example.Unknown", "x": {"y": []}})
    lines.insert(4, {"Timestamp": 3, "Event": "SparkListenerBlockManagerAdded"})
    path = tmp_path / "app-1"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    log = read(path)
    assert (counts(log), log.notes) == ((5, 200), [])


def test_events_with_wrong_types_are_skipped(plain, tmp_path):
    path = tmp_path / "app-1"
    lines = plain.splitlines(keepends=True)
    wrong = b'{"Event":"SparkListenerTaskEnd","Stage ID":"seven"}\n'
    path.write_bytes(b"".join([*lines[:20], wrong, *lines[20:]]))
    log = read(path)
    assert (counts(log), log.notes) == ((5, 200), ["Lines that are not events were skipped: 1."])


def test_a_log_without_tasks_says_so():
    reader = LogReader("app")
    reader.read(Writer().lines().splitlines())
    found = diagnose(reader.log)
    assert found.queries == []
    assert found.notes == ["No task has ended in this log: there is nothing to diagnose."]


def test_without_sizes_of_executors_slots_are_those_that_were_used():
    writer = Writer(cores=3)
    writer.events = [one for one in writer.events if "ExecutorAdded" not in one["Event"]]
    writer.batch([500.0] * 9, streaming=False)
    reader = LogReader()
    reader.read(writer.lines().splitlines())
    found = diagnose(reader.log)
    assert found.queries[0].slots == 3
    assert "3 slots are assumed" in found.notes[0]


def test_batches_without_a_report_are_known_by_their_jobs():
    writer = Writer(cores=8)
    for _ in range(4):
        writer.batch([500.0] * 8)
    writer.events = [one for one in writer.events if "Progress" not in one["Event"]]
    reader = LogReader()
    reader.read(writer.lines().splitlines())
    (query,) = diagnose(reader.log).queries
    assert (query.streaming, query.batches) == (True, 4)
    assert query.notes[0].startswith("4 batches have no report")


def test_memory_is_bounded_by_dropping_the_oldest_jobs():
    writer = Writer(cores=8)
    for _ in range(40):
        writer.batch([50.0] * 100)
    reader = LogReader(most_tasks=1_000)
    reader.read(writer.lines().splitlines())
    jobs, tasks = counts(reader.log)
    assert tasks + reader.dropped == 4_000
    assert tasks <= 1_100
    (query,) = diagnose(reader.log).queries
    assert query.batches == jobs == len(reader.log.progress)


def test_fields_that_old_versions_lack_may_be_missing():
    writer = Writer(cores=2)
    writer.batch([300.0, 900.0], streaming=False)
    for event in writer.events:
        event.pop("Task Metrics", None)
        event.pop("Submission Time", None)
        event.pop("Completion Time", None)
    reader = LogReader()
    reader.read(writer.lines().splitlines())
    (query,) = diagnose(reader.log).queries
    assert query.duration_s < 2
    assert "Tasks report no metrics: only their durations are known." in query.notes


@pytest.mark.parametrize(
    "updates, expected_ms",
    [
        ({"time to start Python workers": "300", "time to initialize Python workers": "50"}, 350),
        ({"time to initialize Python workers": "13553", "time to run Python workers": "2606"}, 0),
    ],
    ids=["new", "used-again"],
)
def test_a_python_worker_that_is_used_again_has_no_start(updates, expected_ms):
    writer = Writer()
    writer.batch([2700.0])
    (task,) = [event for event in writer.events if event["Event"] == "SparkListenerTaskEnd"]
    task["Task Info"]["Accumulables"] = [{"Name": n, "Update": u} for n, u in updates.items()]
    reader = LogReader()
    reader.read(writer.lines().splitlines())
    assert reader.log.stages[0, 0].tasks().python_ms.tolist() == [expected_ms]
