"""The base of all policies: parameters kept verbatim, and learned state as bytes."""

import inspect
import re
from typing import Any, ClassVar, Self

import numpy as np

from penstock.errors import PenstockError
from penstock.policies import codec
from penstock.policies.seeds import SecretSeed
from penstock.policies.validation import known

# Label of a snapshot: the class, and its seed.
_LABEL = re.compile(r"(\w+)\(seed=(\d+)\)")


class Policy:
    """A small object whose constructor arguments are its parameters.

    A subclass keeps every constructor argument under its own name, so that `params`, `clone`,
    `repr` and equality come for free. It returns its learned state as named arrays (`_state`) and
    takes them back (`_load`). A class attribute `name` registers it.

    Example:
        >>> from penstock.policies.grouping import Grouping, RoundRobin
        >>> policy = RoundRobin(instances=3)
        >>> policy, policy.clone(instances=4), policy == RoundRobin(3)
        (RoundRobin(instances=3), RoundRobin(instances=4), True)
        >>> Grouping.named("round_robin", instances=3) == policy
        True
    """

    name: ClassVar[str] = ""
    family: ClassVar[str] = ""
    _registry: ClassVar[dict[tuple[str, str], type["Policy"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # Only classes of this package are registered: users pass objects of their own classes,
        # whose names may be the same as ours.
        if "name" in vars(cls) and cls.__module__.startswith("penstock."):
            Policy._registry[cls.family, cls.name] = cls

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Return the names of the constructor's arguments."""
        return tuple(inspect.signature(cls).parameters)

    @classmethod
    def required(cls) -> set[str]:
        """Return the names of the constructor's arguments that have no default."""
        parameters = inspect.signature(cls).parameters.values()
        return {p.name for p in parameters if p.default is inspect.Parameter.empty}

    @classmethod
    def registered(cls) -> dict[str, type[Self]]:
        """Return all policies of a family by name, for example `Grouping.registered()`."""
        found = sorted(Policy._registry.items())
        return {name: one for (_, name), one in found if issubclass(one, cls)}

    @staticmethod
    def families() -> dict[str, list[type["Policy"]]]:
        """Return all registered policies by family."""
        found: dict[str, list[type[Policy]]] = {}
        for (family, _), one in sorted(Policy._registry.items()):
            found.setdefault(family, []).append(one)
        return found

    @classmethod
    def named(cls, name: str, **params: Any) -> Self:  # noqa: ANN401
        """Make a policy from its registered name and its parameters, for example from TOML."""
        choices = cls.registered()
        found = choices[known("policy", name, choices)]
        for param in params:
            known(f"parameter of {name}", param, found.parameters())
        missing = found.required() - params.keys()
        if missing:
            raise PenstockError(f"{name} needs {', '.join(sorted(missing))}; got {params}")
        return found(**params)

    def params(self) -> dict[str, Any]:
        """Return the present values of the constructor's arguments."""
        return {name: getattr(self, name) for name in self.parameters()}

    def clone(self, **changes: Any) -> Self:  # noqa: ANN401
        """Return a fresh policy with the same parameters (or changed ones) and nothing learnt."""
        return type(self)(**{**self.params(), **changes})

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.params().items())
        return f"{type(self).__name__}({arguments})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Policy) or type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.params(), other.params()
        return all(np.array_equal(mine[name], theirs[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]  # mutable: it learns

    def snapshot(self) -> bytes:
        """Return all learned state as bytes.

        Called by the controller on the driver, for each new version and to save it.
        """
        return codec.encode(self._label(), self._state())

    def restore(self, data: bytes) -> None:
        """Restore the `snapshot` of a policy with the same parameters.

        Called by the router on the executor, at the start of each task; by the controller on the
        driver, after a restart.
        """
        self._take_over_seed(data)
        expected = self._state()
        state = codec.decode(self._label(), data)
        self._refuse_mismatch(expected, state)
        self._load(state)

    def _label(self) -> str:
        """Return the label of fitting snapshots: the class, and the seed of its hash tables."""
        seed = getattr(self, "seed", None)
        return type(self).__name__ if seed is None else f"{type(self).__name__}(seed={int(seed)})"

    def _take_over_seed(self, data: bytes) -> None:
        """Go on with the seed of a snapshot, if the own seed is a secret one."""
        if not isinstance(getattr(self, "seed", None), SecretSeed):
            return
        label = codec.name_in(data)
        found = _LABEL.fullmatch(label)
        if found is None or found[1] != type(self).__name__:
            kind = label.partition("(")[0]
            raise PenstockError(f"snapshot is of {kind!r}, expected {type(self).__name__!r}")
        if label != self._label():
            vars(self).update(vars(self.clone(seed=SecretSeed(found[2]))))

    def _refuse_mismatch(self, expected: codec.Arrays, state: codec.Arrays) -> None:
        for key, array in expected.items():
            found = state.get(key)
            if found is None or found.shape != array.shape or found.dtype != array.dtype:
                raise PenstockError(
                    f"snapshot does not fit {self!r}: {key!r} has another shape; "
                    "it was taken with other parameters"
                )

    @property
    def memory_bytes(self) -> int:
        """Bytes of the learned state."""
        return sum(array.nbytes for array in self._state().values())

    def _state(self) -> codec.Arrays:
        """Return named arrays of everything learnt; nothing by default."""
        return {}

    def _load(self, state: codec.Arrays) -> None:
        """Restore the arrays of `_state` in place, because `_state` returns the arrays in use."""
        for name, array in self._state().items():
            array[...] = state[name]
