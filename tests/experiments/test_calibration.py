"""Numbers for the simulator from runs on Spark: overheads by hand, and stored recordings."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock.diagnosis.queries import Batch, Group, Run
from penstock.diagnosis.tasks import COLUMNS, Stage, Tasks
from penstock.errors import PenstockError
from penstock.experiments.calibration import (
    BatchWork,
    Recording,
    Setting,
    calibrated,
    read_recordings,
    write_recordings,
)


def group(slots, *tasks):
    """Return a stage from launch, finish and executor of each task."""
    table = np.zeros((len(tasks), COLUMNS))
    for number, (launch_ms, finish_ms, executor) in enumerate(tasks):
        table[number, :4] = number, executor, launch_ms, finish_ms
    return Group((Run(Stage(0), Tasks._make(table.T.copy())),), slots)


def batch(*groups, duration_ms=300.0):
    return Batch(0, 0.0, duration_ms, planning_ms=0.0, offsets_ms=0.0, groups=groups)


ROUTING = group(2, (40, 60, 0))
# Task 0: 10 ms besides its records and 1 ms for each. Task 1 starts 4 ms later, on a slow
# executor. Task 2 is empty, and starts 6 ms after the end of task 0.
WORKING = group(2, (70, 70 + 10 + 5 + 50, 0), (74, 74 + 10 + 20 + 120, 1), (141, 144, 0))
WORK = BatchWork(np.array([5, 20, 0]), np.array([50.0, 120.0, 0.0]), costs_ms=105.0)


def test_overheads_are_those_computed_by_hand():
    found = calibrated([batch(ROUTING, WORKING)], [WORK], np.array([1.0, 2.0]))
    # From 0 to 300: 20 ms of routing, 154 ms of work, twice 10 ms between stages.
    assert vars(found.overheads) == {
        "batch_ms": 300 - 20 - 154 - 2 * 10,
        "stage_ms": 10.0,
        "task_ms": pytest.approx(10.0 + 6.0),
        "router_ms": 20.0,
        "launch_ms": 4.0,
        "empty_ms": 3.0 + 6.0,
    }
    # The records took 50 + 120 / 2 = 110 ms for costs of 105 ms.
    assert found.record_ms == pytest.approx(1.0 + 5 / 25)


@pytest.mark.parametrize("groups", [(), (ROUTING,), (ROUTING, WORKING, WORKING)])
def test_other_queries_are_refused(groups):
    with pytest.raises(PenstockError, match="batches must have two stages"):
        calibrated([batch(*groups)], [WORK], np.ones(2))


def test_a_line_never_falls_below_zero():
    fast = group(2, (70, 70 + 100, 0), (70, 70 + 90, 0))
    work = BatchWork(np.array([5, 50]), np.array([90.0, 89.0]), costs_ms=179.0)
    found = calibrated([batch(ROUTING, fast)], [work], np.ones(1))
    assert (found.overheads.task_ms, found.record_ms) == (pytest.approx(5.5), 0.0)


def test_a_recording_is_stored_and_read(tmp_path):
    setting = Setting("some", batches=2, records=10, routers=3, workers=((1, 1.0), (1, 2.0)))
    recording = Recording(setting, {"task_ms": 5.0}, 0.1, 1, (50.0, 60.0))
    write_recordings(tmp_path / "of" / "runs.json", [recording], command="by hand")
    assert read_recordings(tmp_path / "of" / "runs.json") == [recording]
    predicted_ms = recording.predicted_ms()
    assert predicted_ms.shape == (2,)
    np.testing.assert_allclose(recording.errors(predicted_ms), [predicted_ms[1] / 60 - 1])


def test_routers_see_every_nth_record():
    plain = Setting("plain", batches=2, records=5).stream()
    shared = Setting("shared", batches=2, records=5, routers=2).stream()
    order = [0, 2, 4, 1, 3, 5, 7, 9, 6, 8]
    np.testing.assert_array_equal(shared.keys, plain.keys[order])
    np.testing.assert_array_equal(shared.costs_ms, plain.costs_ms[order])


# Runs that `benchmarks/calibrate.py --record` has stored.
RECORDINGS = read_recordings(Path(__file__).parent / "data" / "recordings.json")


def test_the_recorded_runs_differ():
    settings = [replace(recording.setting, name="", seed=0) for recording in RECORDINGS]
    assert len(RECORDINGS) == 8
    assert all(settings.count(setting) == 1 for setting in settings)
    assert all(len(one.real_ms) - one.used >= 5 for one in RECORDINGS)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda one: one.setting.name)
def test_recorded_durations_are_predicted(recording):
    errors = recording.errors(recording.predicted_ms())
    # One executor that takes twice as long: which of its tasks come late is up to chance.
    limit = 0.20 if recording.setting.name == "slow executor" else 0.10
    assert np.median(np.abs(errors)) <= limit
