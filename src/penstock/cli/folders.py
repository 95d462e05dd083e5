"""Folders for results, which are checked before anything runs."""

import tempfile
from pathlib import Path

from penstock.errors import PenstockError


def refuse_unwritable(name: str, path: Path) -> None:
    """Refuse a folder that cannot be written or created; it is not created yet."""
    nearest = next(one for one in (path, *path.absolute().parents) if one.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise PenstockError(
            f"{name} must be a folder that can be written; got {str(path)!r} ({error.strerror})"
        ) from None
