"""Options with which the JVMs of a cluster on one machine start fast; none is started here."""

import os
import sys

import pyspark
import pytest

from penstock.spark.environment import java_version
from penstock.spark.lab.jvms import SHORT_LIVED, share_classes

pytestmark = pytest.mark.spark

OPTIONS = "JDK_JAVA_OPTIONS"


def test_options_of_the_caller_stay(monkeypatch):
    monkeypatch.setenv(OPTIONS, "-Xmx1g")
    share_classes()
    assert os.environ[OPTIONS] == "-Xmx1g"


def test_an_archive_of_this_spark_and_java_is_used_by_all_calls(monkeypatch, tmp_path):
    archive = tmp_path / f"spark-{pyspark.__version__}-java-{java_version()}.jsa"
    archive.touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv(OPTIONS, SHORT_LIVED)
    share_classes()
    first = os.environ[OPTIONS]
    assert first.startswith(f"{SHORT_LIVED} -XX:SharedArchiveFile={archive} ")
    share_classes()
    assert os.environ[OPTIONS] == first


def test_without_java_no_classes_are_shared(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    monkeypatch.setenv(OPTIONS, SHORT_LIVED)
    share_classes()
    assert os.environ[OPTIONS].strip() == SHORT_LIVED
