"""Workers that the daemon of Penstock forks."""

import json

import pytest
from jobs_of import finished, log_of

pytestmark = pytest.mark.spark


def test_a_worker_has_imported_everything_before_its_first_function(tmp_path):
    finished("forked", tmp_path)
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["daemon"] == "penstock.spark.executor.daemon"
    workers, numba, work, sums = zip(*found["tasks"], strict=True)
    assert len(set(workers)) == 2
    assert all(numba), "a function was unpickled before Numba was loaded"
    assert all(work), "a function was unpickled before Penstock was loaded"
    assert sums == (10, 35)
    # Plain UDFs work in such workers, too.
    assert found["rows"] == [[1, 0], [2, 2], [3, 4], [4, 6]]
    # Spark reads the port of the daemon from its standard output; the noise went elsewhere.
    log = log_of("forked", tmp_path)
    assert log.count("output of a task") == 2
    assert "noise of an import" in log
