"""Operators that the user's program holds no longer, and the state that they leave behind."""

from collections.abc import Callable

from penstock.spark.driver.registry import Registration, Registry

# Time after which the state of an operator that no query uses is removed.
_UNUSED_S = 600.0
# The same for a batch job that has not ended, as far as is known: its tasks may take long.
_UNFINISHED_S = 86_400.0
# Time after which the state of an operator is removed in whose place its query uses a newer one.
_REPLACED_S = 60.0
# Operators without any state that are kept.
_DORMANT = 64


class DroppedOperators:
    """Removes the state of operators that the user has dropped.

    A frame outlives its operator, and may run at any time: first after a long wait for data, or
    every hour. So an operator without state stays, unless there are many of them; the operator of a
    stream that has not begun always stays. If an operator is made again for each batch, the earlier
    ones go.

    Args:
        registry: operators of the application.
        save: function that saves the learnt costs of some operators.
        is_active: function that returns whether a query runs.
    """

    def __init__(
        self,
        registry: Registry,
        save: Callable[[list[Registration]], None],
        is_active: Callable[[str], bool],
    ) -> None:
        self._registry = registry
        self._save = save
        self._is_active = is_active
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
        dormant = [one for one in dropped if not one.controllers and not one.awaited]
        self._registry.remove(sorted(dormant, key=_idle_s)[_DORMANT:])
        self._operators &= {one.operator for one in self._registry.all()}

    def _is_unused(self, registration: Registration) -> bool:
        idle_s = registration.idle_s
        return idle_s > _UNUSED_S and not any(
            self._is_active(query) if query else one.is_working and idle_s <= _UNFINISHED_S
            for query, one in [*registration.controllers.items()]
        )


def _idle_s(registration: Registration) -> float:
    return registration.idle_s
