"""Folders of this machine and URLs: none is taken for the other."""

import pytest

import penstock
from penstock.control import Journal
from penstock.shedding import average
from penstock.spark.paths import absolute, is_url, path_of_spark
from penstock.spark.spill import file_system, refuse_unshared


@pytest.mark.parametrize(
    "url",
    ["dbfs:/mnt/shed", "hdfs:/data/shed", "hdfs://host/x", "s3://bucket/x", "file:///mnt/x"],
)
def test_urls_stay_as_they_are(url):
    assert is_url(url)
    assert absolute(f"{url}/") == url


@pytest.mark.parametrize("path", ["shed", "/data/shed", "./a:b", "C:/data"])
def test_folders_become_absolute(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert not is_url(path)
    assert absolute(path).startswith("/")


def test_spark_has_another_name_for_s3():
    assert path_of_spark("s3://bucket/x") == "s3a://bucket/x"
    assert path_of_spark("/data") == "/data"


def test_a_file_system_that_arrow_does_not_know_is_refused():
    with pytest.raises(penstock.PenstockError, match=r"that Arrow knows, such as s3://.*'dbfs:/m"):
        file_system("dbfs:/mnt/shed")


def test_a_local_folder_is_for_one_machine():
    refuse_unshared("/data/shed", {"driver"})
    refuse_unshared("s3://bucket/shed", {"driver", "other"})
    refuse_unshared("file:///data/shed", {"driver", "other"})
    with pytest.raises(penstock.PenstockError, match=r"2 machines.*file:///data/shed if all"):
        refuse_unshared("/data/shed", {"driver", "other"})


@pytest.mark.parametrize("url", ["s3://bucket/x.jsonl", "hdfs://host/x", "file:///tmp/x"])
def test_a_journal_is_a_local_file(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(penstock.PenstockError, match="journal must be a file of this machine"):
        Journal(url)
    with pytest.raises(penstock.PenstockError, match="journal must be a file of this machine"):
        penstock.shed(average("2 s"), arrival="ts", journal=url)
    assert not list(tmp_path.iterdir())
