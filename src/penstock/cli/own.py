"""The user's own policies, named on the command line."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

from penstock.errors import PenstockError
from penstock.policies.grouping import Grouping


def load_grouping(spec: str) -> type[Grouping]:
    """Load a grouping class from `module:Class` or `path/to/file.py:Class`."""
    place, _, name = spec.rpartition(":")
    if not place or not name:
        raise PenstockError(f"grouping must be module:Class or file.py:Class; got {spec!r}")
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    found = getattr(module, name, None)
    if not (inspect.isclass(found) and issubclass(found, Grouping)):
        own = [n for n, c in vars(module).items() if _is_own_grouping(c, module)]
        raise PenstockError(
            f"grouping: {place!r} has no grouping {name!r}; "
            f"it has {', '.join(own) if own else 'none (subclass penstock.Grouping)'}"
        )
    if inspect.isabstract(found):
        raise PenstockError(f"grouping: {name} must implement `route`; it does not")
    return found


def make(cls: type[Grouping], instances: int) -> Grouping:
    """Make a grouping of the user's own, which must need nothing but the number of instances."""
    try:
        return cls(instances)
    except PenstockError:
        raise
    except Exception as error:
        raise PenstockError(
            f"grouping: {cls.__name__}({instances}) fails ({type(error).__name__}: {error}); give "
            "all parameters but instances a default"
        ) from error


def _is_own_grouping(candidate: object, module: ModuleType) -> bool:
    return (
        inspect.isclass(candidate)
        and issubclass(candidate, Grouping)
        and candidate.__module__ == module.__name__
    )


def _load_file(path: Path) -> ModuleType:
    # Under a name of its own: a file called random.py must not become everybody's random.
    spec = importlib.util.spec_from_file_location(f"own_{path.stem}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise PenstockError(f"grouping: no such file {str(path)!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    _run(path.name, partial(spec.loader.exec_module, module))
    return module


def _load_module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    found: list[ModuleType] = []
    _run(name, lambda: found.append(importlib.import_module(name)))
    return found[0]


def _run(name: str, load: Callable[[], object]) -> None:
    try:
        load()
    except Exception as error:
        raise PenstockError(
            f"grouping: cannot import {name!r} ({type(error).__name__}: {error})"
        ) from error
