"""Names of hot keys, which executors report while a dashboard shows them."""

from collections import OrderedDict
from collections.abc import Iterable

from penstock.control.newest import trim

# Keys that a dashboard shows, and whose names it wants.
HOT_KEYS = 10
# Names of an operator that the driver keeps, and the longest one.
_KEPT = 1_000
LONGEST = 80

Names = tuple[tuple[int, str], ...]


def readable(text: str) -> str:
    """Return a name that is short, and has visible characters only.

    Example:
        >>> readable("ann"), len(readable(500 * "x"))
        ('ann', 80)
    """
    short = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return "".join(one if one.isprintable() else "\ufffd" for one in short)


class KeyNames:
    """The names of an operator's keys by their hashes, as far as somebody has asked for them.

    The thread of the control plane learns them; any thread may read.
    """

    def __init__(self) -> None:
        self._names: OrderedDict[int, str] = OrderedDict()

    def learn(self, names: Names) -> None:
        """Keep names that a task has reported; the oldest ones are forgotten."""
        for key, name in names:
            self._names[key] = readable(name)
            self._names.move_to_end(key)
        trim(self._names, _KEPT)

    def get(self, key: int) -> str | None:
        """Return the name of a key; None if it is unknown."""
        return self._names.get(key)

    def missing(self, keys: Iterable[int]) -> tuple[int, ...]:
        """Return the keys whose names are unknown."""
        return tuple(key for key in keys if key not in self._names)
