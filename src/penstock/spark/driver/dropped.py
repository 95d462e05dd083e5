"""Operators that the user's program holds no longer, and the state that they leave behind."""

from collections.abc import Callable

from penstock.spark.driver.registry import Registration, Registry

# Time after which the state of an operator that no query uses is removed.
_UNUSED_S = 600.0
# The same if nobody knows whether its job runs: a job of an RDD has no SQL execution.
_UNKNOWN_S = 3_600.0
# Time after which the state of an operator is removed in whose place its query uses a newer one.
_REPLACED_S = 60.0
# Operators without any state that are kept: for batch jobs, and for streams, which may wait.
_OF_JOBS, _OF_STREAMS = 64, 256


class DroppedOperators:
    """Removes the state of operators that the user has dropped.

    A frame outlives its operator, and may run at any time: first after a long wait for data, or
    every hour. So an operator without state stays, unless there are many of them. If an operator is
    made again for each batch, the earlier ones go.

    Args:
        registry: operators of the application.
        save: function that saves the learnt costs of some operators.
        is_running: function that returns whether some batches of a query run; None if nobody knows.
    """

    def __init__(
        self,
        registry: Registry,
        save: Callable[[list[Registration]], None],
        is_running: Callable[[str, set[str]], bool | None],
    ) -> None:
        self._registry = registry
        self._save = save
        self._is_running = is_running
        self._operators: set[str] = set()

    def add(self, operator: str) -> None:
        """Note that the user has dropped an operator."""
        # The garbage collector calls this on any thread, whatever lock it holds: take none.
        self._operators.add(operator)

    def remove(self) -> None:
        """Remove what nobody has used for a while."""
        dropped = [one for one in self._registry.all() if one.operator in self._operators]
        newest = {one.identity for one, _ in self._registry.newest()}
        for one in dropped:
            if one.controllers and one.identity not in newest:
                if one.idle_s > _REPLACED_S:
                    self._registry.remove([one])
            elif one.controllers and self._is_unused(one):
                self._save([one])
                with one.lock:
                    if self._is_unused(one):  # still, after files were written
                        one.controllers.clear()
        dormant = sorted((one for one in dropped if not one.controllers), key=_idle_s)
        self._registry.remove([one for one in dormant if not one.streaming][_OF_JOBS:])
        self._registry.remove([one for one in dormant if one.streaming][_OF_STREAMS:])
        self._operators &= {one.operator for one in self._registry.all()}

    def _is_unused(self, registration: Registration) -> bool:
        idle_s = registration.idle_s
        if idle_s <= _UNUSED_S:
            return False
        controllers = [*registration.controllers.items()]
        running = [self._is_running(query, one.begun) for query, one in controllers]
        return True not in running and (None not in running or idle_s > _UNKNOWN_S)


def _idle_s(registration: Registration) -> float:
    return registration.idle_s
