"""How many tasks the executors of an application run at a time."""

import logging
import time

from pyspark.sql import SparkSession

from penstock.spark import internals

log = logging.getLogger("penstock")

# Time to wait for the first executors of a cluster, least time to wait for others that come with
# them, and the longest time for all.
_FIRST_S = 15.0
_MORE_S = 1.0
_ALL_S = 30.0
_LOOK_S = 0.1
# Time for which the number of slots is remembered.
_REMEMBERED_S = 2.0


def room_for_instances(spark: SparkSession) -> int:
    """Return the largest number of slots that an application is expected to have.

    That is the number that its settings name, or the number that it has now. A job often applies
    its first operator before any executor has registered, so this waits for the first ones if the
    settings name no number.
    """
    configured = internals.configured_slots(spark)
    now = internals.slots(spark)
    if not configured and not now:
        now = _first_slots(spark)
    return max(configured, now, 1)


def _first_slots(spark: SparkSession) -> int:
    """Wait for the first executors, and then as long again for others: a busy machine is slow."""
    log.info("waiting for the first executors, to know how many tasks share the work")
    began_s = time.monotonic()
    found, end_s = 0, began_s + _FIRST_S
    while time.monotonic() < end_s:
        time.sleep(_LOOK_S)
        now = internals.slots(spark)
        if now != found:
            found, passed_s = now, time.monotonic() - began_s
            end_s = began_s + min(passed_s + max(_MORE_S, passed_s), _ALL_S)
    if not found:
        log.warning(
            "no executor has registered within %g s; give instances= the number of tasks that "
            "share the work",
            _FIRST_S,
        )
    return found


class SlotCounter:
    """The number of slots that an application has, read again every few seconds."""

    def __init__(self) -> None:
        self._found = 0
        self._read_s = -_REMEMBERED_S

    def now(self, spark: SparkSession) -> int:
        """Return the number of slots; 0 if there are no executors."""
        if time.monotonic() >= self._read_s + _REMEMBERED_S:
            self._found = internals.slots(spark)
            self._read_s = time.monotonic()
        return self._found
