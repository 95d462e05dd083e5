from hypothesis import given
from hypothesis import strategies as st

from penstock.control.occupancy import Occupancy, Workers


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 5))
def test_tasks_of_a_busy_executor_are_found_on_its_slots(durations, slots):
    """Tasks start on the slot that is free first, 2 after it has become free."""
    free, tasks = [0.0] * slots, []
    for duration in durations:
        slot = free.index(min(free))
        tasks.append((free[slot] + 2, free[slot] + 2 + duration))
        free[slot] += 2 + duration
    occupancy = Occupancy(slots)
    busy = [0.0] * slots
    for started, ended in sorted(tasks, key=lambda one: one[1]):
        slot, gap_ms = occupancy.add("1", started, ended)
        assert gap_ms is None or gap_ms >= 0
        busy[slot] += ended - started
    # No slot is given more work than fits into the time until its end.
    assert sum(busy) == sum(durations)
    assert max(busy) <= max(ended for _, ended in tasks)


def test_a_gap_is_measured_on_the_same_executor_only():
    occupancy = Occupancy(slots=3)
    assert occupancy.add("1", 0.0, 1.0) == (0, None)
    assert occupancy.add("2", 1.5, 2.0) == (1, None)
    assert occupancy.add("2", 2.5, 3.0) == (1, 500.0)


def test_more_tasks_at_a_time_than_slots_take_the_slot_that_is_free_first():
    occupancy = Occupancy(slots=1)
    assert occupancy.add("1", 0.0, 1.0) == (0, None)
    assert occupancy.add("2", 0.0, 2.0) == (0, None)


def test_executors_keep_their_numbers_and_the_oldest_gives_its_own_away():
    workers = Workers(most=2)
    assert [workers.number(name) for name in "abac"] == [0, 1, 0, 1]
    assert workers.slowdowns(lambda number: [1.0, 3.0][number]) == {"a": 1.0, "c": 3.0}
    assert workers.slowdowns(lambda number: float("nan")) == {}
