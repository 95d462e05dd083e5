"""The scheduler's state machine: Figure 3 of the POSG paper."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.sync_rounds import SyncRounds, SyncState

ROUND_ROBIN, SEND_ALL, WAIT_ALL, RUN = SyncState


def in_send_all(instances=3):
    scheduler = SyncRounds(instances)
    for instance in range(instances):
        scheduler.matrices_received(instance)
    return scheduler


def in_wait_all(instances=3):
    scheduler = in_send_all(instances)
    for _ in range(instances):
        scheduler.ask()
    return scheduler


def in_run(instances=3):
    scheduler = in_wait_all(instances)
    for instance in range(instances):
        scheduler.answer_received(instance, scheduler.epoch, 0.0)
    return scheduler


def test_a_round_robin_collects_matrices():
    scheduler = SyncRounds(3)
    assert (scheduler.state, scheduler.epoch) == (ROUND_ROBIN, 0)
    for instance in (2, 0, 2, 0):
        scheduler.matrices_received(instance)
        assert (scheduler.state, scheduler.epoch) == (ROUND_ROBIN, 0)


def test_b_all_matrices_lead_to_send_all():
    scheduler = SyncRounds(3)
    for instance in (2, 0, 1):
        scheduler.matrices_received(instance)
    assert (scheduler.state, scheduler.epoch) == (SEND_ALL, 1)


def test_c_requests_go_out_in_turn():
    scheduler = in_send_all()
    assert scheduler.ask() == 0
    assert scheduler.ask() == 1
    assert scheduler.state is SEND_ALL
    assert scheduler.ask() == 2
    assert scheduler.state is WAIT_ALL


def test_d_wait_all_collects_answers():
    scheduler = in_wait_all()
    assert scheduler.answer_received(1, 1, 5.0) is None
    assert scheduler.answer_received(0, 1, -2.0) is None
    assert scheduler.answer_received(0, 1, -3.0) is None  # the same instance again
    assert scheduler.state is WAIT_ALL


def test_e_all_answers_are_applied_together():
    scheduler = in_wait_all()
    scheduler.answer_received(1, 1, 5.0)
    scheduler.answer_received(2, 1, 0.0)
    assert scheduler.answer_received(0, 1, -2.0).tolist() == [-2.0, 5.0, 0.0]
    assert scheduler.state is RUN


@pytest.mark.parametrize("reach", [in_send_all, in_wait_all, in_run])
def test_f_new_matrices_begin_an_epoch(reach):
    scheduler = reach()
    if reach is in_send_all:
        scheduler.ask()
    scheduler.matrices_received(1)
    assert (scheduler.state, scheduler.epoch) == (SEND_ALL, 2)
    assert [scheduler.ask() for _ in range(3)] == [0, 1, 2]


def test_answers_of_older_epochs_are_dropped():
    scheduler = in_wait_all()
    scheduler.answer_received(0, 1, 1.0)
    scheduler.matrices_received(2)
    for _ in range(3):
        scheduler.ask()
    for instance in (1, 2, 0):
        assert scheduler.answer_received(instance, 1, 1.0) is None
    assert scheduler.state is WAIT_ALL
    assert scheduler.answer_received(0, 2, 7.0) is None
    assert scheduler.answer_received(1, 2, 8.0) is None
    assert scheduler.answer_received(2, 2, 9.0).tolist() == [7.0, 8.0, 9.0]


def test_answers_of_a_finished_epoch_are_forgotten():
    scheduler = in_run()
    scheduler.matrices_received(0)
    for _ in range(3):
        scheduler.ask()
    assert scheduler.answer_received(0, 2, 7.0) is None
    assert scheduler.answer_received(1, 2, 8.0) is None
    assert scheduler.state is WAIT_ALL
    assert scheduler.answer_received(2, 2, 9.0).tolist() == [7.0, 8.0, 9.0]


def test_answers_that_arrive_during_send_all_count():
    scheduler = in_send_all()
    scheduler.ask()
    assert scheduler.answer_received(0, 1, 1.0) is None
    scheduler.ask()
    assert scheduler.answer_received(1, 1, 2.0) is None
    assert scheduler.state is SEND_ALL
    scheduler.ask()
    assert scheduler.answer_received(2, 1, 3.0).tolist() == [1.0, 2.0, 3.0]


def test_an_answer_is_applied_once():
    scheduler = in_run()
    assert scheduler.answer_received(0, 1, 1.0) is None
    assert scheduler.state is RUN


@pytest.mark.parametrize("reach", [SyncRounds, in_wait_all, in_run])
def test_nobody_is_asked_outside_of_send_all(reach):
    with pytest.raises(PenstockError, match="requests are sent in SEND ALL only; the state is"):
        reach(3).ask()


def test_one_instance():
    scheduler = SyncRounds(1)
    scheduler.matrices_received(0)
    assert scheduler.ask() == 0
    assert scheduler.answer_received(0, 1, 4.0).tolist() == [4.0]
    assert scheduler.state is RUN


def test_names_of_the_figure():
    assert [str(s) for s in SyncState] == ["ROUND ROBIN", "SEND ALL", "WAIT ALL", "RUN"]


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["matrices", "ask", "ask", "answer", "answer", "answer"]),
        st.integers(0, 2),
        st.sampled_from([0, 0, 0, 1]),
    ),
    min_size=20,
    max_size=100,
)


@settings(deadline=None, max_examples=200)
@given(EVENTS)
def test_is_the_plain_twin(events):
    scheduler = SyncRounds(3)
    known, asked, answers, epoch, state = set(), 0, {}, 0, "ROUND ROBIN"
    for event, instance, age in events:
        if event == "matrices":
            scheduler.matrices_received(instance)
            known.add(instance)
            if len(known) == 3:
                state, asked, answers, epoch = "SEND ALL", 0, {}, epoch + 1
        elif event == "ask" and state == "SEND ALL":
            assert scheduler.ask() == asked
            asked += 1
            state = "WAIT ALL" if asked == 3 else state
        elif event == "answer" and instance < asked:
            applied = scheduler.answer_received(instance, epoch - age, float(instance))
            if not age:
                answers[instance] = float(instance)
            if state == "WAIT ALL" and len(answers) == 3:
                assert applied.tolist() == [0.0, 1.0, 2.0]
                state = "RUN"
            else:
                assert applied is None
        assert (scheduler.state.value, scheduler.epoch) == (state, epoch)
