"""Kafka's jars and the guard of its broker, without a broker."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys

import pytest
from flows import until

from penstock.errors import PenstockError
from penstock.spark.lab import guard, kafka, kafka_jars
from penstock.spark.lab.kafka_jars import KafkaUnavailableError, Pin, broker_jars, pins

WAIT_S = 60
# A parent that starts a guarded command, prints the numbers of both processes, and waits.
PARENT = """
import subprocess, sys, time
command = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]
guarded = [sys.executable, "-I", "-S", sys.argv[1], sys.argv[2], *command]
one = subprocess.Popen(guarded, stdin=subprocess.PIPE, start_new_session=True)
time.sleep(600)
"""


def test_each_jar_is_pinned_once_by_a_checksum():
    found = pins()
    assert len({one.file for one in found}) == len(found) == 49
    assert all(len(one.sha256) == 64 for one in found)
    assert {one.part for one in found} == {"broker", "connector"}


def test_the_cache_is_in_the_folder_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kafka_jars.cache_folder() == tmp_path / "penstock" / "kafka"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kafka_jars.cache_folder() == tmp_path / ".cache" / "penstock" / "kafka"


def test_without_maven_one_line_says_why(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "mvn" else which(name))
    with pytest.raises(KafkaUnavailableError, match=r"^no Kafka here: .*Maven \(mvn\).*$"):
        broker_jars()


def test_a_maven_that_fails_is_named(monkeypatch, tmp_path):
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] no route to the registry'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(KafkaUnavailableError, match="no route to the registry"):
        broker_jars()
    assert list((tmp_path / "cache").rglob("*.jar")) == []


def test_a_jar_with_another_checksum_is_refused_and_does_not_count_as_missing(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one = Pin("broker", "g", "a", "1", sha256="0" * 64)
    monkeypatch.setattr(kafka_jars, "pins", lambda: [one])
    file = kafka_jars.cache_folder() / one.file
    file.parent.mkdir(parents=True)
    file.write_bytes(b"another jar")
    with pytest.raises(PenstockError, match="has checksum") as raised:
        broker_jars()
    assert not isinstance(raised.value, KafkaUnavailableError)


@pytest.mark.parametrize(("prints", "said"), [("one two three four", "two three four"), ("", "no")])
def test_a_broker_that_cannot_start_says_what_kafka_printed(prints, said, monkeypatch, tmp_path):
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\nfor line in {prints}; do echo $line; done\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setattr(kafka, "java_command", lambda: str(java))
    monkeypatch.setattr(kafka, "broker_jars", list)
    broker = kafka.KafkaBroker()
    with pytest.raises(PenstockError, match=f"cannot be formatted: (it printed )?{said}"):
        broker.start()
    broker.stop()  # once more does no harm


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_guarded_command_ends_with_its_parent(end, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    with subprocess.Popen(  # noqa: S603 - this test's own script
        [sys.executable, "-c", PARENT, guard.__file__, str(folder)], stdout=subprocess.PIPE
    ) as parent:
        command = int(parent.stdout.readline())
        parent.send_signal(end)
        parent.wait(WAIT_S)
        until(lambda: not lives(command))
        until(lambda: not folder.exists())


def test_a_guard_ends_with_its_command_and_its_code(tmp_path):
    guarded = [sys.executable, "-I", "-S", guard.__file__, str(tmp_path / "none"), "sh", "-c"]
    with subprocess.Popen([*guarded, "exit 3"], stdin=subprocess.PIPE) as process:  # noqa: S603
        assert process.wait(WAIT_S) == 3


def lives(process):
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False
