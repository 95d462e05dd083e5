"""The `penstock` command."""

import sys
from typing import NoReturn

from penstock.errors import PenstockError


def main() -> NoReturn:
    """Run the command line; an installation that cannot work is one clear line, too."""
    try:
        from penstock.cli.main import run  # noqa: PLC0415 - it imports everything
    except PenstockError as error:
        sys.stderr.write(f"penstock: {error}\n")
        sys.exit(2)
    run()


__all__ = ["main"]
