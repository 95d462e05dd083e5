"""Policies of the user's own, given on the command line."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from penstock.errors import PenstockError
from penstock.policies import Policy


class _Role(NamedTuple):
    """Rules for the classes of one family.

    Attributes:
        base: class to subclass.
        method: method to implement.
        parameter: constructor argument that Penstock passes.
    """

    base: str
    method: str
    parameter: str


_ROLES = {
    "grouping": _Role("penstock.grouping.Grouping", "route", "instances"),
    "shedder": _Role("penstock.shedding.Shedder", "admit", "target"),
    "scaler": _Role("penstock.scaling.Scaler", "wanted", "max_degree"),
    "placer": _Role("penstock.placement.Placer", "place", "max_migrations"),
}


def load(spec: str, *families: type[Policy]) -> type[Policy]:
    """Load a policy class from `module:Class` or `path/to/file.py:Class`."""
    family = " or ".join(one.family for one in families)
    place, _, name = spec.rpartition(":")
    if not place or not name:
        raise PenstockError(f"{family} must be module:Class or file.py:Class; got {spec!r}")
    module = (
        _load_file(family, Path(place)) if place.endswith(".py") else _load_module(family, place)
    )
    found = getattr(module, name, None)
    if not (inspect.isclass(found) and issubclass(found, families)):
        own = [n for n, c in vars(module).items() if _is_own(c, families, module)]
        classes = " or ".join(_ROLES[one.family].base for one in families)
        raise PenstockError(
            f"{family}: {place!r} has no {family} {name!r}; "
            f"it has {', '.join(own) if own else f'none (subclass {classes})'}"
        )
    if inspect.isabstract(found):
        method = _ROLES[found.family].method
        raise PenstockError(f"{family}: {name} must implement `{method}`; it does not")
    return found


def make(cls: type[Policy], given: object) -> Policy:
    """Make a policy; all parameters but the one of its family must have defaults."""
    parameter = _ROLES[cls.family].parameter
    try:
        return cls(**{parameter: given}) if parameter in cls.parameters() else cls()
    except PenstockError:
        raise
    except (Exception, SystemExit) as error:
        raise PenstockError(
            f"{cls.family}: {cls.__name__}({given}) fails ({type(error).__name__}: {error}); give "
            f"all parameters but {parameter} a default"
        ) from error


def _is_own(candidate: object, families: tuple[type, ...], module: ModuleType) -> bool:
    return (
        inspect.isclass(candidate)
        and issubclass(candidate, families)
        and candidate.__module__ == module.__name__
    )


def _load_file(family: str, path: Path) -> ModuleType:
    # Imported under another name: a file called random.py must not replace Python's own module.
    spec = importlib.util.spec_from_file_location(f"own_{path.stem}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise PenstockError(f"{family}: no such file {str(path)!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    _run(family, path.name, partial(spec.loader.exec_module, module))
    return module


def _load_module(family: str, name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    found: list[ModuleType] = []
    _run(family, name, lambda: found.append(importlib.import_module(name)))
    return found[0]


def _run(family: str, name: str, importing: Callable[[], object]) -> None:
    try:
        importing()
    except (Exception, SystemExit) as error:
        raise PenstockError(
            f"{family}: cannot import {name!r} ({type(error).__name__}: {error})"
        ) from error
