"""The command as a user meets it."""

import json
import os
import sys
from operator import attrgetter

import pytest

from penstock.cli import main
from processes import ran

RANDOM = """
import numpy as np
from penstock.grouping import Grouping
from penstock.shedding import Shedder
from penstock.policies.scaling import Scaler
from penstock.policies.placement import Placer, LocalSearch

class First(Grouping):
    def route(self, keys, now_ms=None):
        return np.zeros(len(keys), dtype=np.int32)

class Wrong(Grouping):
    def route(self, keys, now_ms=None):
        return np.full(len(keys), 99, dtype=np.int32)

class Unfinished(Grouping):
    pass

class Leaving(First):
    def __init__(self, instances):
        raise SystemExit(3)

class Gone(First):
    def route(self, keys, now_ms=None):
        raise SystemExit(3)

class Marked(First):
    def route(self, keys, now_ms=None):
        raise ValueError("bad path [/x] of [instances]")

class Listing(First):
    def route(self, keys, now_ms=None):
        return [0] * len(keys)

class Needy(First):
    def __init__(self, instances, more):
        super().__init__(instances)

class posg(First):
    pass

class Lenient(Shedder):
    def __init__(self, target, instances=1):
        super().__init__(instances)
        self.target = target

    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        return np.ones(len(keys), dtype=np.bool_)

class Strict(Lenient):
    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        return np.asarray(arrival_ms) < 0

class Counting(Lenient):
    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        return np.ones(len(keys), dtype=np.int64)

class Undecided(Shedder):
    pass

class Demanding(Lenient):
    def __init__(self, target, more):
        super().__init__(target)

class las(Lenient):
    pass

class Plain(Shedder):
    def admit(self, keys, arrival_ms, now_ms=None, protected=None):
        return np.ones(len(keys), dtype=np.bool_)

class Half(Scaler):
    def wanted(self, topology, history):
        return {name: (self.max_degree // 2, "half of all") for name in topology.parents}

class NoLimits(Half):
    def plan(self, topology, history):
        plan = super().plan(topology, history)
        return type(plan)({name: 99 for name in plan.degrees}, plan.reasons)

class Flapping(Scaler):
    def wanted(self, topology, history):
        now = {name: history.operators[name].degree for name in topology.parents}
        return {name: (3 - degree if degree < 3 else 1, "why not") for name, degree in now.items()}

class Indecisive(Scaler):
    pass

class Asking(Half):
    def __init__(self, max_degree, more):
        super().__init__(max_degree=max_degree)

class Bare(Half):
    def __init__(self):
        super().__init__()

class preventive(Half):
    pass

class Draining(LocalSearch):
    def __init__(self, max_migrations=None):
        super().__init__(max_migrations, tolerated=float("inf"))

class Spendthrift(Placer):
    def place(self, cluster):
        live = np.flatnonzero(cluster.live)
        return live[(cluster.placement + 1) % live.size], "everybody moves"

class Homeless(Placer):
    pass
"""


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command in this process: it takes seconds to start another one."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["penstock", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run


def process(*args, cwd=None, env=None):
    return ran(
        [sys.executable, "-m", "penstock", *args],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **(env or {})},
    )


@pytest.fixture
def own(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(RANDOM)
    return file


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["reproduce", "posg-provisionin"], "did you mean 'posg-provisioning'?"),
        (["reproduce", "posg-instances", "--streams", "0"], "--streams must be >= 1; got 0"),
        (["reproduce", "posg-instances", "--streams", "two"], "'two' is not a valid integer"),
        (["reproduce", "posg-instances", "--seed", "-1"], "--seed must be >= 0; got -1"),
        (["reproduce", "posg-instances", "--out", "/proc/nowhere"], "--out must be a folder"),
        (["reproduce", "posg-instances", "--json", "/proc/no/r.json"], "--json"),
        (["reproduce", "posg-instances", "--master", "nowhere"], "master must be local[n]"),
        (["reproduce", "posg-instances", "--grouping", "own.py:Nope"], "has no grouping 'Nope'"),
        (["reproduce", "posg-instances", "--grouping", "own.py"], "must be module:Class"),
        (["check", "own.py:Unfinished"], "must implement `route`"),
        (["check", "missing.py:X"], "no such file"),
        (["check", "no_such_module:X"], "cannot import"),
        (["check", "own.py:First", "--instances", "0"], "instances must be >= 1; got 0"),
        (["demo", "--batches", "1"], "--batches must be >= 2; got 1"),
        (["reproduce", "posg-instances", "--json", "."], "--json must be a file"),
        (["reproduce", "--table", "own.py"], "--table must be a result of --json; got 'own.py'"),
        (["reproduce", "--table", "none.json"], "--table must be a result of --json"),
        (["reproduce", "--table", "."], "--table must have results (*.json); got '.'"),
        (["reproduce", "posg-instances", "--grouping", "own.py:posg"], "is taken"),
        (["check", "own.py:Needy"], "give all parameters but instances a default"),
        (["reprodoce"], "Did you mean 'reproduce'?"),
        (
            ["reproduce", "las-provisioning", "--grouping", "own.py:First"],
            "--grouping: las-provisioning compares shedders; use --shedder, or another experiment",
        ),
        (
            ["reproduce", "las-provisioning", "--grouping", "x:Y"],
            "--grouping: las-provisioning compares shedders; use --shedder, or another experiment",
        ),
        (
            ["reproduce", "posg-instances", "--shedder", "own.py:Lenient"],
            "--shedder: posg-instances compares groupings; use --grouping, or another experiment",
        ),
        (["reproduce", "las-provisionin"], "did you mean 'las-provisioning'?"),
        (["reproduce", "las-threshold", "--shedder", "own.py:First"], "has no shedder 'First'"),
        (["reproduce", "las-threshold", "--shedder", "own.py:las"], "'las' is taken"),
        (["reproduce", "las-threshold", "--shedder", "own.py"], "must be module:Class"),
        (["reproduce", "las-threshold", "--shedder", "x:Y"], "cannot import 'x'"),
        (["check", "own.py:Undecided"], "must implement `admit`"),
        (["check", "own.py:Demanding"], "give all parameters but target a default"),
        (
            ["check", "own.py:Nope"],
            "has no grouping or shedder or scaler or placer 'Nope'; it has First",
        ),
        (
            ["reproduce", "posg-instances", "--scaler", "own.py:Half"],
            "--scaler: posg-instances compares groupings; use --grouping, or another experiment",
        ),
        (
            ["reproduce", "posg-provisioning", "--scaler", "x:Y"],
            "--scaler: posg-provisioning compares groupings; use --grouping, or another experiment",
        ),
        (
            ["reproduce", "las-threshold", "--scaler", "own.py:Half"],
            "--scaler: las-threshold compares shedders; use --shedder, or another experiment",
        ),
        (
            ["reproduce", "autoscale-star", "--grouping", "own.py:First"],
            "--grouping: autoscale-star compares scalers; use --scaler, or another experiment",
        ),
        (["reproduce", "autoscale-str"], "did you mean 'autoscale-star'?"),
        (["reproduce", "autoscale-star", "--scaler", "own.py:First"], "has no scaler 'First'"),
        (["reproduce", "autoscale-star", "--scaler", "own.py:preventive"], "'preventive' is taken"),
        (["reproduce", "autoscale-star", "--scaler", "own.py"], "must be module:Class"),
        (["reproduce", "autoscale-star", "--scaler", "own.py:Indecisive"], "implement `wanted`"),
        (["check", "own.py:Indecisive"], "must implement `wanted`"),
        (["check", "own.py:Homeless"], "must implement `place`"),
        (
            ["reproduce", "milp-scale-in", "--scaler", "own.py:Half"],
            "--scaler: milp-scale-in compares placers; use --placer, or another experiment",
        ),
        (["reproduce", "albic-sizes", "--placer", "own.py:Half"], "has no placer 'Half'"),
        (["check", "own.py:Asking"], "give all parameters but max_degree a default"),
        (["check", "own.py:Leaving"], "Leaving(5) fails (SystemExit: 3)"),
        (["reproduce", "posg-instances", "--master", "local[0]"], "master must be local[n]"),
        (["reproduce", "posg-instances", "--master", "local[2,0]"], "got 'local[2,0]'"),
        (["reproduce", "posg-instances", "--master", "local-cluster[0,1,1024]"], "master must be"),
        (["reproduce", "posg-instances", "--master", ""], "got ''"),
        (["reproduce", "posg-instances", "--json", "own.py/b.json"], "--json: its folder must be"),
    ],
)
def test_bad_input_is_one_line_and_code_2(args, message, own, command, monkeypatch):
    monkeypatch.chdir(own.parent)
    code, _, error = command(*args)
    assert code == 2
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert [file.name for file in own.parent.iterdir() if file.suffix] == ["own.py"]


def test_without_java_the_way_out_is_named(tmp_path, command, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, error = command("reproduce", "posg-instances")
    assert code == 2
    assert "install a Java runtime 17 or newer" in error


def test_check_of_a_good_and_a_bad_grouping(own, command, monkeypatch):
    monkeypatch.chdir(own.parent)
    code, out, _ = command("check", "own.py:First")
    assert code == 0, out
    code, out, _ = command("check", "own.py:Wrong")
    assert code == 1
    assert "fails range" in out


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Gone", "SystemExit: 3"),
        ("Marked", "ValueError: bad path [/x] of [instances]"),
        ("Listing", "Listing.route must return an int32 array"),
    ],
)
def test_check_of_a_grouping_goes_on_after_any_error(name, reason, own, command, monkeypatch):
    monkeypatch.chdir(own.parent)
    code, out, _ = command("check", f"own.py:{name}")
    assert code == 1
    printed = " ".join(out.split())
    assert reason in printed
    assert "fails range" in printed
    assert "fails resize" in printed


def test_a_file_that_leaves_is_named(tmp_path, command):
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    code, _, error = command("check", tmp_path / "leaves.py:X")
    assert code == 2
    assert "cannot import 'leaves.py' (SystemExit: 3)" in error


def test_a_refused_run_leaves_no_folders(tmp_path, command):
    arguments = ("--json", tmp_path / "new" / "a" / "b.json", "--out", tmp_path / "out")
    code, _, _ = command("reproduce", "posg-instances", *arguments, "--master", "local[0]")
    assert code == 2
    assert list(tmp_path.iterdir()) == []


def test_check_of_a_good_and_a_bad_shedder(own, command, monkeypatch):
    monkeypatch.chdir(own.parent)
    code, out, _ = command("check", "own.py:Lenient")
    assert code == 0, out
    assert "ok    every_record" in out
    assert "fails" not in out
    code, out, _ = command("check", "own.py:Strict")
    assert code == 1
    assert "fails slack" in out
    assert "fails protected" in out


def test_check_of_a_shedder_that_returns_numbers(own, command, monkeypatch):
    monkeypatch.chdir(own.parent)
    code, out, _ = command("check", "own.py:Counting")
    assert code == 1
    assert "fails every_record" in out


def test_check_of_a_shedder_that_needs_no_target(own, command, monkeypatch):
    monkeypatch.chdir(own.parent)
    code, out, error = command("check", "own.py:Plain")
    assert code == 0, out + error


def test_check_of_a_good_and_a_bad_scaler(own, command, monkeypatch):
    monkeypatch.chdir(own.parent)
    code, out, _ = command("check", "own.py:Half")
    assert code == 0, out
    assert "ok    constant_load" in out
    assert "fails" not in out
    code, out, _ = command("check", "own.py:NoLimits")
    assert code == 1
    assert "fails limits" in out
    code, out, _ = command("check", "own.py:Flapping")
    assert code == 1
    assert "fails constant_load" in out


def test_check_of_a_scaler_that_needs_no_limit(own, command, monkeypatch):
    monkeypatch.chdir(own.parent)
    code, out, error = command("check", "own.py:Bare")
    assert code == 0, out + error


def test_check_of_a_good_and_a_bad_placer(own, command, monkeypatch):
    monkeypatch.chdir(own.parent)
    code, out, _ = command("check", "own.py:Draining")
    assert code == 0, out
    assert "ok    removed" in out
    code, out, _ = command("check", "own.py:Spendthrift")
    assert code == 1
    assert "fails budget" in out
    assert "fails comes_to_rest" in out


def test_the_classes_to_subclass_are_where_the_message_says(tmp_path, command):
    import penstock

    (tmp_path / "nothing.py").write_text("")
    _, _, error = command("check", tmp_path / "nothing.py:Nope")
    named = {word.strip("().,\n") for word in error.split() if word.startswith("penstock.")}
    assert named == {
        "penstock.grouping.Grouping",
        "penstock.shedding.Shedder",
        "penstock.scaling.Scaler",
        "penstock.placement.Placer",
    }
    assert all(attrgetter(name.removeprefix("penstock."))(penstock) for name in named)


def test_names_of_policies_are_not_cut(command):
    assert "preventive_as_published" in command("policies")[1]


def test_lists(command):
    assert "autoscale-star" in command("reproduce", "--list")[1]
    assert "rate_based" in command("policies")[1]
    assert "las-provisioning" in command("reproduce", "--list")[1]
    assert "las_as_published" in command("policies")[1]
    assert "posg-timeseries" in command("reproduce", "--list")[1]
    assert "full_knowledge" in command("policies")[1]
    assert "reproduce" in command("--help")[1]
    assert command("--version")[1].startswith("penstock")


@pytest.mark.spark
def test_reproduce_writes_result_and_plot_with_an_own_series(own, tmp_path):
    out = tmp_path / "out"
    done = process(
        *("reproduce", "posg-instances", "--streams", "2", "--master", "local[2]"),
        *("--out", out, "--json", tmp_path / "r.json", "--grouping", "own.py:First"),
        cwd=own.parent,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "r.json").read_text())
    assert document == json.loads((out / "posg-instances.json").read_text())
    assert document["name"] == "posg-instances"
    assert document["params"]["streams"] == 2
    series = {row["series"] for row in document["rows"]}
    wanted = {"round_robin", "posg_as_published", "posg", "posg_frugal", "full_knowledge", "First"}
    assert series == wanted
    first = [r for r in document["rows"] if r["series"] == "First" and r["metric"] == "speedup"]
    assert {r["x"]: r["mean"] for r in first}[1] == 1.0
    assert all({"figure", "series", "x", "metric", "mean", "se", "n"} <= set(r) for r in first)
    fields = {"claim", "paper", "source", "goal", "ours", "tolerance", "holds"}
    assert all(set(c) == fields for c in document["claims"])
    table = process("reproduce", "--table", tmp_path / "r.json")
    assert table.returncode == 0, table.stderr
    assert table.stdout.count("\n| ") == len(document["claims"]) + 2
    assert (out / "posg-instances.png").read_bytes().startswith(b"\x89PNG")
    assert not [file for file in out.iterdir() if file.name.startswith(".")]


@pytest.mark.spark
def test_doctor_finds_all_well():
    done = process("doctor")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("ok ") == 5
    assert "extras   with " in done.stdout


def test_doctor_says_what_is_missing(tmp_path):
    done = process("doctor", env={"JAVA_HOME": str(tmp_path)})
    assert done.returncode == 1
    assert "JAVA_HOME has no bin/java" in done.stdout


@pytest.mark.spark
def test_demo_compares_and_writes_a_report(tmp_path):
    done = process("demo", "--batches", "2", "--out", tmp_path / "out", "--watch")
    assert done.returncode == 0, done.stderr
    assert "with Penstock." in done.stdout
    assert "demo.html" in done.stdout
    assert "Watch the stream: http://127.0.0.1:" in done.stderr
    html = (tmp_path / "out" / "demo.html").read_text()
    assert "latency-bound" in html
    assert "data:image/png;base64," in html
    assert "http" not in html.replace("http-equiv", "")
    for picture in ("demo.png", "busy.png"):
        assert (tmp_path / "out" / picture).read_bytes().startswith(b"\x89PNG")
