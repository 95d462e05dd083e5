"""Executors are requested and removed at the right moment."""

import pytest

from penstock.spark.driver import fleet as module
from penstock.spark.driver.fleet import Fleet


class Cluster:
    """What a cluster manager knows: its executors, the requests, and who was removed by force."""

    def __init__(self, *executors):
        self.there = list(executors)
        self.requested = []
        self.removed = {}

    def executors(self, spark):
        return list(self.there)

    def request_executors(self, spark, total):
        self.requested.append(total)
        return True

    def remove_executors(self, spark, executors, *, force):
        self.removed |= dict.fromkeys(executors, force)
        self.there = [one for one in self.there if one not in executors]
        return executors


@pytest.fixture
def cluster(monkeypatch):
    found = Cluster("0", "1", "2", "3")
    monkeypatch.setattr(module, "internals", found)
    return found


def test_executors_leave_between_two_batches_and_the_last_one_goes_first(cluster):
    pauses = iter([False, True])
    fleet = Fleet(None, lambda: next(pauses), patience_s=60)
    fleet.aim(3)
    assert fleet.approach() == []
    assert cluster.removed == {}  # a batch is under way
    fleet.approach()
    assert cluster.removed == {"3": False}
    assert next(pauses, None) is None
    fleet.approach()  # nobody is too many, so nothing waits for a pause
    assert cluster.requested == [3]


def test_executors_that_hold_state_stay_until_they_are_empty(cluster):
    fleet = Fleet(None, lambda: True, patience_s=60)
    fleet.aim(2)
    fleet.approach(holders=frozenset({"2"}))
    assert list(cluster.removed) == ["3"]
    fleet.approach()
    assert list(cluster.removed) == ["3", "2"]


def test_executors_that_others_keep_busy_are_removed_after_a_while(cluster):
    fleet = Fleet(None, lambda: True, patience_s=0)
    fleet.aim(3)
    fleet.approach(holders=frozenset({"3"}))
    assert cluster.removed == {"3": True}


def test_a_query_that_ends_gives_its_executors_back(cluster):
    fleet = Fleet(None, lambda: False, patience_s=60)
    fleet.aim(4)
    fleet.shrink_to(2)
    assert cluster.there == ["0", "1"]
    assert cluster.requested == [4, 2]


def test_a_query_that_ends_with_fewer_executors_than_before_requests_none(cluster):
    fleet = Fleet(None, lambda: False, patience_s=60)
    fleet.shrink_to(1)  # it has never requested any
    fleet.aim(4)
    fleet.shrink_to(5)
    assert cluster.there == ["0", "1", "2", "3"]
    assert cluster.requested == [4]
