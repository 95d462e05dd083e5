"""A session at hand and a running application, diagnosed without an event log."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import penstock
from penstock.cli import main
from penstock.errors import PenstockError
from penstock.spark import internals

sys.path.insert(0, str(Path(__file__).parents[1] / "diagnosis"))
from written import Writer

pytestmark = pytest.mark.spark

NAME = "three runs of eight tasks"


@pytest.fixture(scope="module")
def worked(spark):
    """Three runs of a job of eight tasks, which its description tells from those of other tests."""

    def same(batches):
        yield from batches

    spark.sparkContext.setLocalProperty("spark.job.description", NAME)
    for _ in range(3):
        frame = spark.range(0, 8, 1, 8).mapInArrow(same, "id long")
        frame.write.format("noop").mode("overwrite").save()
    spark.sparkContext.setLocalProperty("spark.job.description", None)
    return spark


def tasks_of(batch):
    return sum(run.tasks.size for group in batch.groups for run in group.runs)


def named(queries):
    """The query of this test among those of the whole session."""
    return next(query for query in queries if query.name == NAME)


def test_the_session_at_hand_is_diagnosed(worked):
    found = penstock.diagnose(worked)
    query = named(found.queries)
    assert (query.batches, query.streaming) == (3, False)
    assert [tasks_of(batch) for batch in query.examined] == [8, 8, 8]
    assert found.version == worked.version
    assert any("Spark forgets old stages" in note for note in found.notes)
    stages = [run.stage for group in query.examined[-1].groups for run in group.runs]
    assert any(stage.python for stage in stages)
    assert json.dumps(found.document())


@pytest.mark.parametrize("wrong", [None, "spark"])
def test_something_else_is_refused(wrong):
    with pytest.raises(PenstockError, match="spark must be a classic Spark session; got"):
        penstock.diagnose(wrong)


@pytest.fixture
def pages(worked):
    """The REST interface of Spark on this machine, with the answers of the session's store."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.removeprefix("/api/v1/")
            if path == "applications":
                found = [{"id": "app-1", "name": "job"}]
            elif path == "version":
                found = {"spark": worked.version}
            elif path.startswith("applications/app-1/"):
                found = internals.application_status(worked, path.split("/", 2)[2])
            else:
                self.send_error(404)
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def run(monkeypatch, capsys, *arguments, command="diagnose"):
    monkeypatch.setattr(sys, "argv", ["penstock", command, *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    out = capsys.readouterr()
    return ended.value.code, out.out, out.err


def test_a_running_application_is_diagnosed_by_its_address(pages, tmp_path, monkeypatch, capsys):
    target = tmp_path / "found.json"
    code, out, _ = run(monkeypatch, capsys, "--url", pages, "--json", target)
    assert code == 0
    assert out.startswith("job, Spark ")
    queries = json.loads(target.read_text())["queries"]
    [query] = [query for query in queries if query["name"] == NAME]
    assert (query["batches"], query["streaming"]) == (3, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--url", "http://127.0.0.1:9"), "'http://127.0.0.1:9' does not answer ("),
        (("--url", "127.0.0.1:4040"), "--url must be such as http://127.0.0.1:4040"),
        (("--url", "file:///etc/hosts"), "--url must be such as http://127.0.0.1:4040"),
        ((), "give either PATH, an event log, or --url"),
        (("log", "--url", "http://127.0.0.1:9"), "give either PATH, an event log, or --url"),
    ],
)
def test_an_address_that_cannot_be_used_is_one_line(arguments, message, monkeypatch, capsys):
    code, _, err = run(monkeypatch, capsys, *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err


def test_pages_of_something_else_are_one_line(pages, monkeypatch, capsys):
    code, _, err = run(monkeypatch, capsys, "--url", f"{pages}/elsewhere")
    assert (code, err.count("\n")) == (2, 1)
    assert "must be the pages of a Spark application" in err


@pytest.fixture
def mounted(spark, tmp_path):
    """A folder of this machine in a file system of Hadoop that is not the local one."""
    spark.conf.set("fs.viewfs.mounttable.lab.link./logs", tmp_path.as_uri())
    yield "viewfs://lab/logs"
    spark.conf.unset("fs.viewfs.mounttable.lab.link./logs")


def test_a_log_of_any_hadoop_file_system_is_copied_and_read(mounted, tmp_path, monkeypatch, capsys):
    writer = Writer(cores=8)
    for _ in range(6):
        writer.batch([3000, *[600] * 7])
    rolling = tmp_path / "eventlog_v2_app-1"
    rolling.mkdir()
    writer.write(rolling, "events_1_app-1")
    (rolling / "appstatus_app-1").touch()
    code, out, err = run(monkeypatch, capsys, f"{mounted}/{rolling.name}")
    assert (code, err) == (0, f"copying {mounted}/{rolling.name} through Spark\n")
    assert "main cause: uneven_costs" in out
    code, local, _ = run(monkeypatch, capsys, rolling.as_uri())
    assert (code, local) == (0, out)
    code, out, _ = run(monkeypatch, capsys, f"{mounted}/{rolling.name}", command="rehearse")
    assert code == 0
    assert "calls: 5 batches" in out


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("viewfs://lab/logs/missing", "viewfs://lab/logs/missing does not exist"),
        ("nosuch://lab/x", "nosuch://lab/x cannot be read through Spark ("),
    ],
)
def test_a_remote_path_that_cannot_be_read_is_one_line(url, message, mounted, monkeypatch, capsys):
    code, _, err = run(monkeypatch, capsys, url)
    progress, error = err.splitlines()
    assert (code, progress) == (2, f"copying {url} through Spark")
    assert message in error
