"""Rehearsals: traces in, outcomes of settings out."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made import NUMBERS, costs_of, write_trace

from penstock.control.trace import METADATA
from penstock.errors import PenstockError
from penstock.rehearsal import (
    Scenario,
    frontier,
    is_trace,
    read_trace,
    recommended,
    recorded,
    rehearse,
    settings_of,
)


def test_a_trace_is_read_with_its_setting(folder):
    found = recorded(read_trace(folder))
    assert (found.name, found.batches, len(found.stream)) == ("enrich", 7, 2800)
    assert [(one.slots, one.slowdown) for one in found.workers] == [(2, 1.0), (2, 1.0)]
    assert (found.instances, found.grouping, found.trigger_ms) == (4, "round_robin", 2000.0)
    assert np.array_equal(found.stream.costs_ms, costs_of(found.stream.keys))
    assert (np.diff(found.stream.arrivals_ms) >= 0).all()
    assert found.stream.arrivals_ms[0] == 0
    assert found.overheads.batch_ms == 150.0
    assert is_trace(folder)


def test_the_rehearsal_of_the_recorded_setting_is_right(folder):
    found = recorded(read_trace(folder))
    assert found.error < 0.1
    assert found.rehearsed_ms.mean() == pytest.approx(found.measured_ms.mean(), rel=0.05)


def test_a_slow_executor_is_told_from_expensive_keys(tmp_path):
    found = recorded(read_trace(write_trace(tmp_path / "slow", slow=2.0)))
    assert [round(one.slowdown, 2) for one in found.workers] == [1.0, 2.0]
    assert found.stream.costs_ms == pytest.approx(costs_of(found.stream.keys))


def test_sampled_records_stand_for_all(tmp_path):
    whole = recorded(read_trace(write_trace(tmp_path / "whole")))
    sampled = recorded(read_trace(write_trace(tmp_path / "some", most=25)))
    assert len(sampled.stream) == len(whole.stream)
    assert sampled.stream.costs_ms.sum() == pytest.approx(whole.stream.costs_ms.sum(), rel=0.15)


def test_shed_records_get_the_cost_of_their_key(tmp_path):
    found = recorded(read_trace(write_trace(tmp_path / "shed", shed=100)))
    assert len(found.stream) == 7 * 500
    assert found.stream.costs_ms == pytest.approx(costs_of(found.stream.keys))
    assert any("Shed records" in note for note in found.notes)


def test_more_executors_and_better_groupings_are_faster(folder):
    found = recorded(read_trace(folder))
    outcomes = rehearse(found, settings_of(found), Scenario(target_ms=2500.0))
    times = {(one.executors, one.grouping): one for one in outcomes}
    assert [*times] == [(e, g) for e in (1, 2, 4) for g in ("round_robin", "factoring")]
    assert times[2, "factoring"].batch_s < times[2, "round_robin"].batch_s
    batches_s = [times[e, "factoring"].batch_s for e in (1, 2, 4)]
    assert batches_s == sorted(batches_s, reverse=True)
    assert all(one.shed == 0 for one in outcomes)
    best = frontier(outcomes)
    assert best
    assert all(one.keeps_up for one in best)


def test_the_cheapest_setting_that_holds_is_recommended(folder):
    found = recorded(read_trace(folder))
    settings = settings_of(found, executors=[1, 2, 3, 4, 8], groupings=["factoring"])
    easy = recommended(rehearse(found, settings, Scenario(target_ms=60_000.0)))
    assert easy.executors == 1
    late = Scenario(target_ms=60_000.0, rate=3.0)
    hard = rehearse(found, settings, late)
    chosen = recommended(hard)
    assert chosen.executors > 1
    assert not hard[0].keeps_up
    assert all(one.holds for one in hard if one.executors >= chosen.executors)
    assert recommended(rehearse(found, settings, Scenario(target_ms=1.0))) is None


def test_a_shedder_holds_a_target_that_nothing_else_holds(folder):
    found = recorded(read_trace(folder))
    settings = settings_of(found, executors=[1], groupings=["factoring"], shedder="las")
    without, with_shedder = rehearse(found, settings, Scenario(target_ms=3000.0, rate=3.0))
    assert not without.holds
    assert with_shedder.holds
    assert with_shedder.latency_s <= 3.0
    assert 0.4 < with_shedder.shed < 0.9
    assert with_shedder.shed_target_s < 3.0


def test_scenarios_change_what_they_name(folder):
    found = recorded(read_trace(folder))
    settings = settings_of(found, executors=[2], groupings=["factoring"])

    def batch_s(**changes):
        [one] = rehearse(found, settings, Scenario(**changes))
        return one.batch_s

    usual = batch_s()
    assert batch_s(slow_executor=3.0) > usual
    assert batch_s(rate=1.5) > usual
    assert batch_s(trigger_ms=4000.0) > 1.3 * usual
    [hot] = rehearse(found, settings, Scenario(hot_key=0.5))
    assert hot.busy != pytest.approx(rehearse(found, settings, Scenario())[0].busy)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rate": 0.0}, "rate must be > 0"),
        ({"slow_executor": -1.0}, "slow-executor must be > 0"),
        ({"hot_key": 1.5}, r"hot-key must be in \(0, 1\)"),
    ],
)
def test_wrong_scenarios_are_refused(wrong, message):
    with pytest.raises(PenstockError, match=message):
        Scenario(**wrong)


def test_traces_that_are_none_are_refused_with_one_line(tmp_path):
    with pytest.raises(PenstockError, match=r"TRACE must be a folder.*does not exist"):
        read_trace(tmp_path / "missing")
    (tmp_path / "x.parquet").write_bytes(b"not Parquet")
    with pytest.raises(PenstockError, match=r"has none; x.parquet \("):
        read_trace(tmp_path)
    (tmp_path / "x.parquet").unlink()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "y.parquet")
    with pytest.raises(PenstockError, match=r"y.parquet \(it is not of a trace\)"):
        read_trace(tmp_path)


def test_traces_of_another_version_are_refused(folder):
    file = folder / "000.parquet"
    table = pq.read_table(file)
    changed = {**json.loads(table.schema.metadata[METADATA]), "version": 7}
    table = table.replace_schema_metadata({METADATA: json.dumps(changed).encode()})
    pq.write_table(table, file)
    with pytest.raises(PenstockError, match="TRACE has form 7, this version of Penstock reads 1"):
        read_trace(folder)


def test_broken_files_are_skipped_and_said(folder):
    (folder / "003.parquet").write_bytes(b"cut")
    found = read_trace(folder)
    assert len(found.batches) == 7
    assert "003.parquet" in found.notes[0]


def test_an_operator_must_be_chosen_among_several(folder):
    write_trace(folder.parent / "other", batches=2)
    for file in (folder.parent / "other").iterdir():
        table = pq.read_table(file)
        fields = json.loads(table.schema.metadata[METADATA])
        metadata = {METADATA: json.dumps({**fields, "operator": "score"}).encode()}
        pq.write_table(table.replace_schema_metadata(metadata), folder / f"score-{file.name}")
    with pytest.raises(PenstockError, match="give --operator with one of enrich, score"):
        read_trace(folder)
    assert len(read_trace(folder, "score").batches) == 2
    with pytest.raises(PenstockError, match="TRACE has no operator 'no'; it has enrich, score"):
        read_trace(folder, "no")


def test_an_operator_in_front_has_even_costs(tmp_path):
    folder = write_trace(tmp_path / "front", in_front=True, executors={}, grouping="round_robin")
    found = recorded(read_trace(folder))
    assert 1 < len(set(found.stream.costs_ms.round(6))) <= 7  # one for each batch
    assert [one.slots for one in found.workers] == [1]


def test_unknown_arrivals_are_spread_before_their_batches(tmp_path):
    folder = write_trace(tmp_path / "old")
    trace = read_trace(folder)
    unknown = [replace(b, arrival_ms=np.full(b.keys.size, np.nan)) for b in trace.batches]
    found = recorded(replace(trace, batches=unknown))
    assert any("Times of arrival are unknown" in note for note in found.notes)
    gaps = np.diff(found.stream.arrivals_ms)
    assert gaps.min() == pytest.approx(gaps.max())
    assert found.span_ms == pytest.approx(7 * 2000.0)
    assert NUMBERS.number == 0


def following(trace):
    """The trace of a source that limits batches: they follow one another, arrivals are unknown."""
    began_ms, batches = 1.7e12, []
    for one in trace.batches:
        whole_ms = one.numbers.duration_ms + 150.0
        numbers = replace(one.numbers, began_ms=began_ms, trigger_ms=None)
        arrival_ms = np.full(one.keys.size, np.nan)
        batches.append(replace(one, numbers=numbers, arrival_ms=arrival_ms))
        began_ms += whole_ms
    return replace(trace, batches=batches)


@pytest.mark.parametrize("batches", [2, 5, 12])
def test_the_table_agrees_with_the_check_if_batches_follow_one_another(tmp_path, batches):
    found = recorded(following(read_trace(write_trace(tmp_path / "few", batches=batches))))
    assert found.limited
    settings = settings_of(found, executors=[2], instances=[4], groupings=["round_robin"])
    [same] = rehearse(found, settings, Scenario())
    whole_ms = found.rehearsed_ms.mean() + found.overheads.batch_ms
    assert 1000 * same.batch_s == pytest.approx(whole_ms, rel=0.05)
    assert same.keeps_up
    assert same.waiting_s < same.latency_s < 2 * same.batch_s
    assert any("keep their recorded numbers" in note for note in found.notes)


def test_limited_batches_get_longer_with_the_rate_and_a_trigger_ends_the_limit(tmp_path):
    found = recorded(following(read_trace(write_trace(tmp_path / "few"))))
    settings = settings_of(found, executors=[2], groupings=["factoring"])
    [usual] = rehearse(found, settings, Scenario())
    [more] = rehearse(found, settings, Scenario(rate=2.0))
    [triggered] = rehearse(found, settings, Scenario(trigger_ms=10_000.0))
    assert 1.5 < more.batch_s / usual.batch_s < 2.1
    assert not more.keeps_up
    assert triggered.batch_s > 2 * usual.batch_s


def test_batches_that_wait_for_their_trigger_take_what_has_arrived(folder):
    assert not recorded(read_trace(folder)).limited
