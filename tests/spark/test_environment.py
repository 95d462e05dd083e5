"""Executors start the Python of the driver, or the log tells which one they start."""

import sys
from types import SimpleNamespace

import pytest

from penstock.spark.environment import use_own_python


def application(master, *, python="python3", chosen=False):
    context = SimpleNamespace(master=master, pythonExec=python, applicationId=f"{master} {chosen}")
    context.getConf = lambda: SimpleNamespace(contains=lambda name: chosen)
    return SimpleNamespace(sparkContext=context)


@pytest.fixture(autouse=True)
def nobody_has_chosen(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[3,1,1024]"])
def test_executors_of_this_machine_start_the_python_of_the_driver(master, caplog):
    spark = application(master)
    use_own_python(spark)
    assert spark.sparkContext.pythonExec == sys.executable
    assert caplog.text == ""


def test_a_cluster_is_told_once_which_python_it_starts(caplog):
    spark = application("spark://host:7077")
    use_own_python(spark)
    use_own_python(spark)
    assert spark.sparkContext.pythonExec == "python3"
    (record,) = caplog.records
    assert "executors start python3 from their PATH" in record.getMessage()
    assert "set PYSPARK_PYTHON or spark.pyspark.python" in record.getMessage()


def test_a_chosen_python_stays(monkeypatch, caplog):
    spark = application("local[2]", chosen=True)
    use_own_python(spark)
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    other = application("spark://other:7077")
    use_own_python(other)
    assert spark.sparkContext.pythonExec == other.sparkContext.pythonExec == "python3"
    assert caplog.text == ""
