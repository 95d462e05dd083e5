"""Operators that the user's program holds no longer, and the state that they leave behind."""

from collections.abc import Callable

from penstock.spark.driver.registry import Registration, Registry

# Times after which the state of an operator is removed that no query uses, or in whose place its
# query uses a newer one.
_UNUSED_S = 600.0
_REPLACED_S = 60.0
# Operators without any state that are kept.
_DORMANT = 64


class DroppedOperators:
    """Removes the state of operators that the user has dropped.

    A frame outlives its operator, and may run at any time: first after a long wait for data, or
    every hour. So an operator without state stays, unless there are many of them. If an operator is
    made again for each batch, the earlier ones go.

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
            elif one.controllers and one.idle_s > _UNUSED_S and not self._runs(one):
                self._save([one])
                with one.lock:
                    one.controllers.clear()
        dormant = sorted((one for one in dropped if not one.controllers), key=_idle_s)
        self._registry.remove(dormant[_DORMANT:])
        self._operators &= {one.operator for one in self._registry.all()}

    def _runs(self, registration: Registration) -> bool:
        return any(self._is_active(query) for query in [*registration.controllers])


def _idle_s(registration: Registration) -> float:
    return registration.idle_s
