"""The `penstock` command."""

from penstock.cli.main import main

__all__ = ["main"]
