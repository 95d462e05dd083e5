"""Optional packages: imported when they are needed, with advice if they are missing."""

import importlib
from types import ModuleType

from penstock.errors import PenstockError


def needs(module: str, extra: str, what: str) -> ModuleType:
    """Import an optional package, or refuse with the command that installs it.

    Args:
        module: name of the package.
        extra: extra of Penstock that installs the package.
        what: feature that needs the package, for the message.

    Example:
        >>> needs("no_such_package", extra="plots", what="a plot")
        Traceback (most recent call last):
        ...
        penstock.errors.PenstockError: a plot needs no_such_package; run: pip install ...
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise PenstockError(
            f"{what} needs {module}; run: pip install 'penstock[{extra}]'"
        ) from None
