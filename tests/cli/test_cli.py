"""The command as a user meets it."""

import json
import os
import sys

import pytest

from processes import ran


def process(*args, cwd=None, env=None):
    return ran(
        [sys.executable, "-m", "penstock", *args],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **(env or {})},
    )


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


def test_a_refused_run_leaves_no_folders(tmp_path, command):
    arguments = ("--json", tmp_path / "new" / "a" / "b.json", "--out", tmp_path / "out")
    code, _, _ = command("reproduce", "posg-instances", *arguments, "--master", "local[0]")
    assert code == 2
    assert list(tmp_path.iterdir()) == []


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
