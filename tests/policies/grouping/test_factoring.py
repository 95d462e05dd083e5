import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.grouping import Factoring, Proactive
from penstock.policies.costs import SpaceSaving
from penstock.policies.feedback import Feedback
from penstock.policies.grouping.divisions import Division, Records, Rehearsal, divide, rehearse
from penstock.policies.grouping.list_scheduling import Ran, list_schedule, makespan

COSTS = st.lists(st.floats(0.01, 1_000), min_size=1, max_size=60)


def plain_divide(costs, order, division):
    """The same division, record by record, with lists."""
    loads = [0.0] * division.equal
    tasks = {}
    taken, left = 0.0, list(order)
    while left and not (
        division.first < 1
        and taken + costs[left[0]] > division.first * sum(costs)
        and len(tasks) >= division.equal
    ):
        i = left.pop(0)
        task = loads.index(min(loads))
        loads[task] += costs[i]
        taken += costs[i]
        tasks[i] = task
    if left:
        sizes = plain_trapezoid(sum(costs) - taken, taken / division.equal, division)
        ends = np.cumsum(sizes)
        before = 0.0
        task = 0
        for i in left:
            while task < len(sizes) - 1 and before + costs[i] / 2 > ends[task]:
                task += 1
            before += costs[i]
            tasks[i] = division.equal + task
    return [tasks[i] for i in range(len(costs))]


def plain_trapezoid(left, most, division):
    last = min(division.least_ms, most)
    number = max(1, min(int(np.ceil(2 * left / (most + last))), division.tail))
    first = 2 * left / number - last
    if first < last:
        return [left / number] * number
    return list(np.linspace(first, last, number)) if number > 1 else [left]


def taught(instances, costs_ms, *, records=20, worker=None, **params):
    """A grouping that knows keys 0, 1, ..., each with all the costs in its list."""
    grouping = Factoring(instances, **params)
    measured = SpaceSaving(capacity=240, spread=True)
    for key, own in enumerate(costs_ms):
        measured.update(np.full(records, key), np.resize(np.array(own, dtype=float), records))
    for instance in range(instances):
        grouping.observe(Feedback(instance, measured, worker=worker, overhead_ms=5.0))
    return grouping


def division_of(grouping, keys, router=0):
    grouping.begin(router)
    return grouping.route_together(keys)


@given(COSTS, st.sampled_from([1.0, 0.9, 0.5, 0.2]), st.integers(1, 5), st.integers(1, 12))
def test_records_are_divided_as_by_the_plain_twin(costs, first, equal, tail):
    order = np.argsort(-np.array(costs), kind="stable")
    division = Division(first, equal, 3.0, tail)
    out = np.empty(len(costs), dtype=np.int32)
    divide(Records(np.array(costs), order), division, np.zeros(equal), out)
    expected = plain_divide(costs, list(order), division)
    # Sums in another order differ in the last bits: a record at a border may be on either side.
    assert np.abs(out - expected).max() <= 1 if first < 1 else list(out) == expected
    assert (out == expected).mean() >= 0.8


@given(COSTS, st.integers(1, 6), st.floats(0, 20))
def test_the_makespan_is_that_of_a_queue_served_in_order(costs, slots, task_ms):
    free = [0.0] * slots
    for cost in costs:
        heapq.heapreplace(free, free[0] + task_ms + cost)
    found = makespan(np.array(costs), np.ones(slots), task_ms)
    assert found == pytest.approx(max(free))
    # Graham's bound of list scheduling: at most 2 - 1/k times any schedule.
    work = [cost + task_ms for cost in costs]
    best = max(sum(work) / slots, *work)
    assert found <= (2 - 1 / slots) * best * (1 + 1e-9)


@given(COSTS, st.integers(1, 6), st.floats(0, 20))
def test_a_schedule_ends_with_its_makespan(costs, slots, task_ms):
    count = len(costs)
    ran = Ran(np.empty(count, dtype=np.int64), np.empty(count), np.empty(count))
    slowdown = 1.0 + np.arange(slots)
    own_ms = np.full(len(costs), task_ms)
    list_schedule(np.array(costs), (slowdown, own_ms, 0.0), np.zeros(slots), ran)
    assert ran.end_ms.max() == pytest.approx(makespan(np.array(costs), slowdown, task_ms))
    spent = task_ms + np.array(costs) * slowdown[ran.slot]
    assert ran.end_ms - ran.began_ms == pytest.approx(spent)
    assert (np.diff(ran.began_ms) >= 0).all()


def test_equal_records_of_known_cost_need_no_tail():
    grouping = taught(4, [[10.0], [10.0]])
    tasks = division_of(grouping, np.arange(400) % 2)
    assert np.bincount(tasks).tolist() == [100, 100, 100, 100]


def test_records_of_unknown_cost_get_a_tail_of_falling_sizes():
    grouping = taught(4, [[5.0, 300.0], [20.0, 5.0]])
    tasks = division_of(grouping, np.arange(400) % 2)
    sizes = np.bincount(tasks, weights=grouping.expected_ms(np.arange(400) % 2))
    tail = sizes[4:]
    assert tail.size >= 4
    assert tail.sum() > 0.2 * sizes.sum()
    # A task is at most one record above the one before it.
    longest = grouping.expected_ms([0, 1]).max()
    assert (np.diff(tail) <= longest).all()
    assert tail[-1] < tail[0]


def test_the_most_uncertain_records_start_first():
    grouping = taught(2, [[20.0], [1.0, 39.0]])
    keys = np.arange(40) % 2
    tasks = division_of(grouping, keys)
    assert tasks[keys == 1].mean() < tasks[keys == 0].mean()


def test_a_slow_worker_makes_the_first_tasks_smaller():
    def first_share(slow):
        grouping = taught(4, [[10.0]], worker=0)
        measured = SpaceSaving(capacity=240, spread=True)
        measured.update(np.zeros(200, dtype=np.int64), np.full(200, 30.0 if slow else 10.0))
        for _ in range(20):
            grouping.observe(Feedback(1, measured, worker=1))
        return float((division_of(grouping, np.zeros(400, dtype=np.int64)) < 4).mean())

    assert first_share(slow=False) == 1.0
    assert first_share(slow=True) < 0.7


def test_tasks_that_cost_more_than_they_bring_are_left_out():
    grouping = taught(4, [[0.1, 3.0]])
    for _ in range(100):
        grouping.observe(Feedback(0, overhead_ms=200.0))
    assert division_of(grouping, np.zeros(100, dtype=np.int64)).max() < 4


def test_several_routers_share_the_tasks_evenly():
    grouping = taught(4, [[10.0], [20.0]])
    grouping.expect(400)
    totals = np.zeros(grouping.tasks)
    for router in range(4):
        keys = (np.arange(100) + router) % 2
        tasks = division_of(grouping, keys, router)
        weights = np.where(keys == 1, 20.0, 10.0)
        totals += np.bincount(tasks, weights=weights, minlength=grouping.tasks)
    assert totals[:4].max() <= 1.05 * totals[:4].mean()


def test_a_router_that_runs_again_decides_in_the_same_way():
    grouping = taught(4, [[5.0, 300.0], [20.0, 5.0], [7.0]])
    keys = np.random.default_rng(1).integers(0, 3, 500)
    again = grouping.clone()
    again.restore(grouping.snapshot())
    assert (division_of(grouping, keys, 2) == division_of(again, keys, 2)).all()


def test_the_overhead_of_a_task_follows_what_is_measured():
    def after(*measured_ms):
        grouping = Factoring(2)
        for overhead_ms in measured_ms:
            grouping.observe(Feedback(0, overhead_ms=overhead_ms))
        return float(grouping._overhead_ms[0])

    assert after(*[30.0] * 200) == pytest.approx(30, rel=0.01)
    assert after(*[3.0] * 200) == pytest.approx(3, rel=0.01)
    assert after(5_000.0) == after(50.0) == pytest.approx(12)


def test_without_a_tail_it_is_the_longest_first_rule_of_posg():
    factoring, posg = taught(3, [[9.0], [4.0], [1.0]], tail=0), Proactive(3)
    measured = SpaceSaving(capacity=240)
    for key, cost in enumerate((9.0, 4.0, 1.0)):
        measured.update(np.full(20, key), np.full(20, cost))
    for instance in range(3):
        posg.observe(Feedback(instance, measured))
    keys = np.random.default_rng(2).integers(0, 3, 90)
    assert factoring.tasks == 3
    assert (division_of(factoring, keys) == division_of(posg, keys)).all()


@pytest.mark.parametrize(
    "params, message",
    [
        ({"tail": -1}, "tail must be >= 0; got -1"),
        ({"tail": 1.5}, "tail must be a whole number; got 1.5"),
        ({"caution": -1.0}, "caution must be >= 0; got -1"),
    ],
)
def test_bad_parameters_are_refused(params, message):
    with pytest.raises(PenstockError, match=message):
        Factoring(2, **params)


def plain_rehearsal(records, division, rehearsal):
    """The mean duration of a batch whose tasks have several servers, with heaps."""
    out = np.empty(records.order.size, dtype=np.int32)
    divide(records, division, np.zeros(division.equal), out)
    equal, draws = division.equal // rehearsal.servers, len(rehearsal.drawn_ms)
    durations = []
    for draw in range(draws):
        free = {}
        for i in records.order:
            for router in range(rehearsal.routers):
                task = int(out[i]) // rehearsal.servers
                task = task if task >= equal else (task - router) % equal
                servers = free.setdefault(task, [0.0] * rehearsal.servers)
                cost = rehearsal.drawn_ms[(draw + router) % draws][i]
                heapq.heapreplace(servers, servers[0] + cost)
        tasks = [max(free.get(task, [0.0])) for task in range(max(free, default=0) + 1)]
        tasks += [0.0] * (equal - len(tasks))
        slowdown = rehearsal.slowdown[draw]
        durations.append(makespan(np.array(tasks), slowdown, rehearsal.overhead_ms))
    return float(np.mean(durations))


@given(
    COSTS,
    st.sampled_from([1.0, 0.6, 0.3]),
    st.integers(1, 3),
    st.integers(2, 4),
    st.integers(1, 3),
)
def test_a_rehearsed_task_ends_when_its_last_server_ends(costs, first, slots, servers, routers):
    """The servers of a task cannot go on to the next task while one of them is busy."""
    rng = np.random.default_rng(7)
    records = Records(np.array(costs), np.argsort(-np.array(costs), kind="stable"))
    division = Division(first, slots * servers, 3.0, 4 * servers)
    rehearsal = Rehearsal(
        drawn_ms=np.array(costs) * rng.lognormal(0, 0.5, (3, len(costs))),
        slowdown=rng.uniform(1, 2, (3, slots)),
        overhead_ms=5.0,
        routers=routers,
        servers=servers,
    )
    expected = plain_rehearsal(records, division, rehearsal)
    assert rehearse(records, division, rehearsal) == pytest.approx(expected)


def test_servers_that_wait_for_each_other_make_tails_rare():
    """One server takes a tail of tasks for uncertain costs; sixteen even out most of them."""
    keys = np.arange(400) % 2
    one = division_of(taught(4, [[5.0, 300.0], [20.0, 5.0]]), keys)
    several = division_of(taught(4, [[5.0, 300.0], [20.0, 5.0]], servers=16), keys)
    assert (several < 4).sum() > (one < 4).sum()


def test_the_possible_cost_of_a_record_has_its_uncertainty():
    grouping = taught(2, [[20.0], [1.0, 39.0], [5.0]], servers=2)
    possible_ms = grouping.possible_ms([0, 1, 2])
    assert np.argsort(-possible_ms).tolist() == [1, 0, 2]
    assert Factoring(2, servers=2).possible_ms([0, 1]) is None
