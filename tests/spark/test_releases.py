"""Which spilled files may be released: those of batches that will not run again."""

import shutil
from uuid import UUID

import pytest
from spilled import files_of, three_batches

from penstock.spark import internals
from penstock.spark.driver.releaser import CommittedFiles, release, release_all
from penstock.spark.internals import JvmError

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(spark, tmp_path):
    return three_batches(spark, tmp_path)


def test_files_stay_if_the_checkpoint_cannot_be_read(spark, folder, monkeypatch, caplog):
    def fails(*_):
        raise JvmError("503 Slow Down")

    monkeypatch.setattr(internals, "unfinished_batch", fails)
    folder.with_name("spill-replay").mkdir()
    release_all(spark, str(folder))
    assert files_of(folder) == 3
    assert "its checkpoint cannot be read: 503 Slow Down" in caplog.text
    assert "not committed" not in caplog.text
    monkeypatch.undo()
    shutil.rmtree(folder.parent / "live-checkpoint")  # the query was given up
    release_all(spark, str(folder))
    assert files_of(folder) == 0


def test_files_of_all_batches_that_will_run_again_stay(spark, folder):
    """With asynchronous progress tracking several batches are not committed."""
    commits = folder.parent / "live-checkpoint" / "commits"
    for batch in (1, 2):
        (commits / str(batch)).unlink()
    folder.with_name("spill-replay").mkdir()
    release_all(spark, str(folder))
    assert files_of(folder) == 2


def test_files_of_a_query_whose_checkpoint_belongs_to_another_one_are_released(spark, folder):
    """The old checkpoint was deleted, and a new query failed in its first batch."""
    checkpoint = folder.parent / "live-checkpoint"
    shutil.rmtree(checkpoint / "commits")
    (checkpoint / "metadata").write_text(f'{{"id": "{UUID(int=1)}"}}')
    (checkpoint / ".metadata.crc").unlink(missing_ok=True)
    folder.with_name("spill-replay").mkdir()
    release_all(spark, str(folder))
    assert files_of(folder) == 0


def test_only_files_of_committed_batches_are_final(spark, tmp_path, folder):
    final = CommittedFiles(spark, str(folder))
    files = sorted(map(str, folder.rglob("[!.]*.parquet")))
    assert [final(one) for one in files] == [True, True, True]
    shutil.rmtree(tmp_path / "live-checkpoint" / "commits" / "2", ignore_errors=True)
    (tmp_path / "live-checkpoint" / "commits" / "2").unlink(missing_ok=True)
    again = CommittedFiles(spark, str(folder))
    assert [again(one) for one in files] == [True, True, False]
    assert not again(str(folder / "penstock_batch=execution-3" / "same-app-1-0.parquet"))


def test_files_of_an_earlier_checkpoint_are_released_in_any_batch(spark, tmp_path, folder):
    """A new query counts its batches from 0; files of the old one have higher numbers."""
    for batch in (0, 1, 2):
        (folder / f"penstock_batch={batch}").rename(folder / f"penstock_batch={batch + 5_000}")
    commits = tmp_path / "live-checkpoint" / "commits"
    (commits / "5002").write_text("v1")
    (folder.with_name("spill-replay")).mkdir()
    assert release(str(folder), most=1, final=CommittedFiles(spark, str(folder))) == 1
    assert release(str(folder), final=CommittedFiles(spark, str(folder))) == 2
