"""The `penstock` command."""

import sys
from typing import NoReturn

from penstock.errors import PenstockError
from penstock.extras import EXTRAS, missing


def main() -> NoReturn:
    """Run the command line; an incomplete installation is reported in one line, too."""
    try:
        from penstock.cli.app import run  # noqa: PLC0415 - it imports everything
    except PenstockError as error:
        _end(error)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRAS["cli"]:
            raise
        _end(missing(" and ".join(EXTRAS["cli"]), extra="cli", what="the command line"))
    run()


def _end(error: PenstockError) -> NoReturn:
    sys.stderr.write(f"penstock: {error}\n")
    sys.exit(2)


__all__ = ["main"]
