import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.grouping import Factoring, KeyHash, Proactive, RoundRobin
from penstock.sim import (
    HeavyTailed,
    Overheads,
    Stage,
    Stream,
    Worker,
    simulate_batches,
    simulate_triggers,
)

FOUR = [Worker(), Worker(), Worker(), Worker()]


def test_durations_are_those_computed_by_hand():
    stream = Stream.of([1, 2, 3, 4, 5], [10.0, 20.0, 30.0, 40.0, 7.0])
    found = simulate_batches(
        RoundRobin(2),
        stream,
        records=4,
        workers=[Worker(slots=2)],
        overheads=Overheads(batch_ms=100, stage_ms=10, task_ms=5, router_ms=3, launch_ms=2),
    )
    # Routers: 10 + 3; the stage: 10; tasks of 10 + 30 and 20 + 40 ms, the second one 2 ms later.
    assert found.duration_ms.tolist() == [100 + 13 + 10 + 2 + 5 + 60, 100 + 13 + 10 + 5 + 7]
    assert found.ideal_ms.tolist() == [50.0, 7.0]
    assert found.tasks.busy_ms.tolist() == [40.0, 60.0, 7.0]
    assert found.tasks.records.tolist() == [2, 2, 1]


def test_tasks_start_in_order_on_the_slot_that_is_free_first():
    costs_ms = [50.0, 10.0, 10.0, 10.0, 10.0]
    stream = Stream.of(np.arange(5), costs_ms)
    found = simulate_batches(
        RoundRobin(5),
        stream,
        records=5,
        workers=[Worker(slots=2)],
        overheads=Overheads(task_ms=0),
    )
    assert found.duration_ms.tolist() == [50.0]
    assert found.tasks.start_ms.tolist() == [0.0, 0.0, 10.0, 20.0, 30.0]


def test_a_slow_worker_takes_longer_and_changes_take_effect():
    stream = Stream.of(np.zeros(4, dtype=int), np.full(4, 10.0))
    found = simulate_batches(
        RoundRobin(1),
        stream,
        records=1,
        workers=[Worker(slowdown=2.0)],
        slowdowns=[(2, [3.0])],
        overheads=Overheads(task_ms=0),
    )
    assert found.duration_ms.tolist() == [20.0, 20.0, 30.0, 30.0]


def test_stages_run_one_after_the_other():
    stream = Stream.of([1, 2], [10.0, 20.0])
    found = simulate_batches(
        [Stage(RoundRobin(2)), Stage(RoundRobin(1), np.array([1.0, 2.0]))],
        stream,
        records=2,
        workers=[Worker(slots=2)],
        overheads=Overheads(task_ms=1),
    )
    assert found.duration_ms.tolist() == [21.0 + 4.0]
    assert found.tasks.stage.tolist() == [0, 0, 1]


@pytest.mark.parametrize("empty_ms, expected_ms", [(None, 10.0 + 5 + 5), (1.0, 10.0 + 5 + 1)])
def test_a_task_without_records_has_its_own_overhead(empty_ms, expected_ms):
    found = simulate_batches(
        KeyHash(2),
        Stream.of([7], [10.0]),
        records=1,
        workers=[Worker(slots=1)],
        overheads=Overheads(task_ms=5, empty_ms=empty_ms),
    )
    assert found.duration_ms.tolist() == [expected_ms]
    assert found.tasks.records.tolist() == [1]


@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 3))
def test_every_record_runs_once(routers, records, seed):
    stream = HeavyTailed(records=200).stream(seed)
    grouping = Factoring(4, tail=6)
    found = simulate_batches(grouping, stream, records=records, workers=FOUR, routers=routers)
    assert found.tasks.records.sum() == 200
    assert found.tasks.busy_ms.sum() == pytest.approx(stream.costs_ms.sum())
    assert (found.duration_ms >= found.ideal_ms * (1 - 1e-9)).all()


def ratio(grouping, *, spread, slow, seed=0):
    stream = HeavyTailed(spread=spread, records=30_000).stream(seed)
    workers = [Worker(slowdown=2.0 if slow and i < 2 else 1.0) for i in range(8)]
    found = simulate_batches(
        grouping, stream, records=1_000, workers=workers, overheads=Overheads(task_ms=15)
    )
    return found.to_ideal(skip=15)


def test_factoring_absorbs_what_keys_do_not_tell():
    factoring = ratio(Factoring(8, capacity=1_024), spread=1.0, slow=False)
    longest_first = ratio(Proactive(8, capacity=1_024), spread=1.0, slow=False)
    assert factoring < 1.25 < longest_first - 0.1


def test_factoring_absorbs_slow_workers():
    factoring = ratio(Factoring(8, capacity=1_024), spread=0.0, slow=True)
    longest_first = ratio(Proactive(8, capacity=1_024), spread=0.0, slow=True)
    shuffle = ratio(RoundRobin(64), spread=0.0, slow=True)
    assert factoring < 1.15 < shuffle < 1.4 < longest_first


def test_speeds_of_workers_are_learnt():
    stream = HeavyTailed(spread=0.2, records=20_000).stream(0)
    workers = [Worker(slots=2), Worker(slots=2, slowdown=2.0)]
    grouping = Factoring(4, capacity=1_024)
    simulate_batches(grouping, stream, records=1_000, workers=workers)
    fast, slow = grouping.slowdown_of(0), grouping.slowdown_of(1)
    assert slow / fast == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"records": 0}, "records must be >= 1; got 0"),
        ({"routers": 0}, "routers must be >= 1; got 0"),
        ({"workers": []}, "workers must have at least one executor; got none"),
        ({"stages": []}, "stages must have at least one operator; got none"),
    ],
)
def test_bad_input_is_refused(changes, message):
    given_ = {"stages": RoundRobin(2), "records": 10, "workers": FOUR, **changes}
    with pytest.raises(PenstockError, match=message):
        simulate_batches(given_.pop("stages"), HeavyTailed(records=10).stream(0), **given_)


def test_an_unknown_task_of_an_own_grouping_is_refused():
    class Beyond(KeyHash):
        def route_together(self, keys):
            return np.full(len(keys), 9, dtype=np.int32)

    with pytest.raises(PenstockError, match="must return tasks from 0 to 1; got 9"):
        simulate_batches(Beyond(2), HeavyTailed(records=10).stream(0), records=5, workers=FOUR)


def test_a_limited_source_keeps_the_sizes_of_batches_whatever_they_take():
    stream = Stream.of(np.arange(10), np.full(10, 7.0)).every(interval_ms=1000.0)
    found = simulate_triggers(
        RoundRobin(instances=1), stream, workers=[Worker()], limits=[3, 1],
        overheads=Overheads(task_ms=0.0),
    )  # fmt: skip
    assert found.records.tolist() == [3, 1, 3, 1, 2]
    assert found.began_ms == pytest.approx(np.cumsum([0, 21, 7, 21, 7]))
    # The fourth record arrives in the middle of the first batch, and is done after the second.
    assert found.latency_ms[3] == pytest.approx(10.5 + 7)


@pytest.mark.parametrize(
    "limits, message", [([], "limits must have at least one"), ([0], "limits must be >= 1")]
)
def test_limits_that_make_no_batch_are_refused(limits, message):
    stream = Stream.of([1], [1.0])
    with pytest.raises(PenstockError, match=message):
        simulate_triggers(RoundRobin(instances=1), stream, workers=[Worker()], limits=limits)
