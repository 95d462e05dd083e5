"""The journal of placement: dry runs, entries, and whatever happens."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_groups import FOUR, Simulated, journal_of, loop_of, period, worsening, zipf

from penstock.control import Journal
from penstock.policies.placement import LocalSearch


def test_a_dry_run_is_written_down_and_changes_nothing():
    simulated = Simulated(zipf(), ["1"] * 40, FOUR)
    simulated.run()
    loop = loop_of(simulated, dry_run=True)
    before = dict(simulated.groups.where), simulated.groups.batches, simulated.groups.cluster(FOUR)
    plans = [loop.plan(FOUR) for _ in range(3)]
    after = dict(simulated.groups.where), simulated.groups.batches, simulated.groups.cluster(FOUR)
    assert before[:2] == after[:2]
    assert before[2][0].load.tolist() == after[2][0].load.tolist()
    assert len(plans[0].moves) == 10
    assert plans[0] == plans[1] == plans[2]  # nothing to wait for
    simulated.run()
    loop.plan(FOUR)
    entries = loop.journal.entries()
    assert [entry["kind"] for entry in entries] == ["plan"] * 4
    assert all(entry["dry_run"] and len(entry["moves"]) == 10 for entry in entries)


def test_entries_tell_what_moves_and_why():
    simulated = Simulated([100.0] * 8, ["1"] * 8, {"1": 1, "2": 1})
    loop = loop_of(simulated)
    plan = period(simulated, loop)
    [entry] = journal_of(loop, "plan")
    assert entry["moves"] == {f"0/{i}": target for (_, i), target in plan.moves.items()}
    assert (entry["query"], entry["dry_run"]) == ("words", False)
    assert [entry["distance"], entry["expected"], entry["bound"]] == pytest.approx([40.0, 0.0, 0.0])
    assert entry["reason"] == plan.reason
    assert "with 4 migrations of at most 10" in plan.reason


def test_entries_tell_how_much_traffic_stays():
    simulated = Simulated([100.0] * 4, ["1", "1", "2", "2"], {"1": 1, "2": 1})
    loop = loop_of(simulated)
    period(simulated, loop)
    sent = {((0, 0), (0, 1)): 30.0, ((0, 0), (0, 2)): 10.0}
    period(simulated, loop, traffic=sent)
    assert [entry["collocation"] for entry in journal_of(loop, "plan")] == [None, 0.75]


def test_a_journal_on_disk_has_all_entries(tmp_path):
    simulated, loop = worsening(journal=Journal(tmp_path / "journal.jsonl"))
    loop.plan({})
    for batches in (1, 4, 4, 4):
        period(simulated, loop, batches=batches)
    lines = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == loop.journal.entries()
    assert any("worse" in line for line in lines)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.dictionaries(st.sampled_from("12345"), st.integers(1, 4)),
        st.frozensets(st.sampled_from("12345"), max_size=2),
        st.sampled_from([0.0, 0.1, 1.0, 50.0]),
        st.booleans(),
    ),
    min_size=1,
    max_size=10,
)


@settings(deadline=None, max_examples=60)
@given(STEPS, st.integers(0, 8), st.booleans(), st.integers(0, 1_000))
def test_whatever_happens_plans_are_possible_and_entries_are_json(steps, most, dry_run, seed):
    random = np.random.default_rng(seed)
    simulated = Simulated(zipf(20), random.choice(list("12345"), 20).tolist(), {}, noise=0.2)
    loop = loop_of(simulated, LocalSearch(max_migrations=most), dry_run=dry_run)
    for batches, executors, marked, factor, late in steps:
        simulated.busy_ms = {i: factor * ms for i, ms in enumerate(zipf(20))}
        simulated.run(batches)
        plan = loop.plan(executors, marked=marked)
        assert len(plan.moves) <= most
        assert set(plan.moves.values()) <= set(executors) - marked
        assert all(simulated.groups.where[g] in executors for g in plan.moves)
        assert all(simulated.groups.where[g] != target for g, target in plan.moves.items())
        if not dry_run:
            simulated.where.update(plan.moves)
        if late:
            loop.carried_out()
    entries = loop.journal.entries()
    assert sum(entry["kind"] == "plan" for entry in entries) == len(steps)
    assert all(entry["reason"] for entry in entries)
    for entry in entries:
        assert json.loads(json.dumps(entry, allow_nan=False)) == entry
