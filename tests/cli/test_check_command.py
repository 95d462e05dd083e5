"""`penstock check` as a user meets it."""

from operator import attrgetter

import pytest


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
