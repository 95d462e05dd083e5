"""Commands and how they end: one clear line and code 2 for bad input, 130 for Ctrl-C."""

import sys
from typing import Annotated

import click
import typer

from penstock import __version__
from penstock.cli import check, doctor, policies, reproduce
from penstock.cli.console import errors
from penstock.errors import PenstockError

app = typer.Typer(
    help="Penstock: adaptive load management for PySpark streams.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("reproduce")(reproduce.reproduce)
app.command("policies")(policies.policies)
app.command("check")(check.check)
app.command("doctor")(doctor.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Say what holds for all commands."""


def main() -> None:
    """Run the command line."""
    try:
        code = app(standalone_mode=False)
    except PenstockError as error:
        _fail(str(error))
    except click.ClickException as error:
        _fail(error.format_message())
    except (KeyboardInterrupt, click.Abort):
        errors.print("interrupted; nothing was written")
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> None:
    errors.print(f"penstock: {' '.join(message.split())}", markup=False, soft_wrap=True)
    sys.exit(2)
