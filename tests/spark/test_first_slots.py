"""The number of slots, before all executors have registered."""

import pytest

from penstock.spark import internals
from penstock.spark.driver import slots


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.now_s = 100.0

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds


@pytest.mark.parametrize(
    ("registered", "found", "waits_s"),
    [
        # Seconds after which executors register.
        ([0.5, 0.6, 0.7], 3, 1.7),
        ([6.0, 10.0, 11.0], 3, 22.0),
        ([6.0, 13.0], 1, 12.0),
        ([14.0, 16.0, 28.5], 3, 30.0),
        ([], 0, 15.0),
    ],
)
def test_others_may_register_as_late_as_the_first_one(monkeypatch, registered, found, waits_s):
    clock = Clock()
    monkeypatch.setattr(slots, "time", clock)
    monkeypatch.setattr(internals, "configured_slots", lambda _: 0)
    monkeypatch.setattr(
        internals, "slots", lambda _: sum(one <= clock.now_s - 100 for one in registered)
    )
    assert slots.room_for_instances(None) == max(1, found)
    assert clock.now_s - 100 == pytest.approx(waits_s, abs=0.35)
