"""The rounds's state machine: Figure 3 of the POSG paper."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.sync_rounds import SyncRounds, SyncState

ROUND_ROBIN, SEND_ALL, WAIT_ALL, RUN = SyncState


def in_send_all(instances=3):
    rounds = SyncRounds(instances)
    for instance in range(instances):
        rounds.matrices_received(instance)
    return rounds


def in_wait_all(instances=3):
    rounds = in_send_all(instances)
    for _ in range(instances):
        rounds.ask()
    return rounds


def in_run(instances=3):
    rounds = in_wait_all(instances)
    for instance in range(instances):
        rounds.answer_received(instance, rounds.epoch, 0.0)
    return rounds


def test_a_round_robin_collects_matrices():
    rounds = SyncRounds(3)
    assert (rounds.state, rounds.epoch) == (ROUND_ROBIN, 0)
    for instance in (2, 0, 2, 0):
        rounds.matrices_received(instance)
        assert (rounds.state, rounds.epoch) == (ROUND_ROBIN, 0)


def test_b_all_matrices_lead_to_send_all():
    rounds = SyncRounds(3)
    for instance in (2, 0, 1):
        rounds.matrices_received(instance)
    assert (rounds.state, rounds.epoch) == (SEND_ALL, 1)


def test_c_requests_go_out_in_turn():
    rounds = in_send_all()
    assert rounds.ask() == 0
    assert rounds.ask() == 1
    assert rounds.state is SEND_ALL
    assert rounds.ask() == 2
    assert rounds.state is WAIT_ALL


def test_d_wait_all_collects_answers():
    rounds = in_wait_all()
    assert rounds.answer_received(1, 1, 5.0) is None
    assert rounds.answer_received(0, 1, -2.0) is None
    assert rounds.answer_received(0, 1, -3.0) is None  # the same instance again
    assert rounds.state is WAIT_ALL


def test_e_all_answers_are_applied_together():
    rounds = in_wait_all()
    rounds.answer_received(1, 1, 5.0)
    rounds.answer_received(2, 1, 0.0)
    assert rounds.answer_received(0, 1, -2.0).tolist() == [-2.0, 5.0, 0.0]
    assert rounds.state is RUN


@pytest.mark.parametrize("reach", [in_send_all, in_wait_all, in_run])
def test_f_new_matrices_begin_an_epoch(reach):
    rounds = reach()
    if reach is in_send_all:
        rounds.ask()
    rounds.matrices_received(1)
    assert (rounds.state, rounds.epoch) == (SEND_ALL, 2)
    assert [rounds.ask() for _ in range(3)] == [0, 1, 2]


def test_answers_of_older_epochs_are_dropped():
    rounds = in_wait_all()
    rounds.answer_received(0, 1, 1.0)
    rounds.matrices_received(2)
    for _ in range(3):
        rounds.ask()
    for instance in (1, 2, 0):
        assert rounds.answer_received(instance, 1, 1.0) is None
    assert rounds.state is WAIT_ALL
    assert rounds.answer_received(0, 2, 7.0) is None
    assert rounds.answer_received(1, 2, 8.0) is None
    assert rounds.answer_received(2, 2, 9.0).tolist() == [7.0, 8.0, 9.0]


def test_answers_of_a_finished_epoch_are_forgotten():
    rounds = in_run()
    rounds.matrices_received(0)
    for _ in range(3):
        rounds.ask()
    assert rounds.answer_received(0, 2, 7.0) is None
    assert rounds.answer_received(1, 2, 8.0) is None
    assert rounds.state is WAIT_ALL
    assert rounds.answer_received(2, 2, 9.0).tolist() == [7.0, 8.0, 9.0]


def test_answers_that_arrive_during_send_all_count():
    rounds = in_send_all()
    rounds.ask()
    assert rounds.answer_received(0, 1, 1.0) is None
    rounds.ask()
    assert rounds.answer_received(1, 1, 2.0) is None
    assert rounds.state is SEND_ALL
    rounds.ask()
    assert rounds.answer_received(2, 1, 3.0).tolist() == [1.0, 2.0, 3.0]


def test_an_answer_is_applied_once():
    rounds = in_run()
    assert rounds.answer_received(0, 1, 1.0) is None
    assert rounds.state is RUN


@pytest.mark.parametrize("reach", [SyncRounds, in_wait_all, in_run])
def test_nobody_is_asked_outside_of_send_all(reach):
    with pytest.raises(PenstockError, match="requests are sent in SEND ALL only; the state is"):
        reach(3).ask()


def test_one_instance():
    rounds = SyncRounds(1)
    rounds.matrices_received(0)
    assert rounds.ask() == 0
    assert rounds.answer_received(0, 1, 4.0).tolist() == [4.0]
    assert rounds.state is RUN


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
    rounds = SyncRounds(3)
    known, asked, answers, epoch, state = set(), 0, {}, 0, "ROUND ROBIN"
    for event, instance, age in events:
        if event == "matrices":
            rounds.matrices_received(instance)
            known.add(instance)
            if len(known) == 3:
                state, asked, answers, epoch = "SEND ALL", 0, {}, epoch + 1
        elif event == "ask" and state == "SEND ALL":
            assert rounds.ask() == asked
            asked += 1
            state = "WAIT ALL" if asked == 3 else state
        elif event == "answer" and instance < asked:
            applied = rounds.answer_received(instance, epoch - age, float(instance))
            if not age:
                answers[instance] = float(instance)
            if state == "WAIT ALL" and len(answers) == 3:
                assert applied.tolist() == [0.0, 1.0, 2.0]
                state = "RUN"
            else:
                assert applied is None
        assert (rounds.state.value, rounds.epoch) == (state, epoch)
