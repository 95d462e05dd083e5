"""All commands, and their exit codes: 2 with one line for bad input, 130 for Ctrl-C."""

import sys
from typing import NoReturn

import click

from penstock import __version__
from penstock.cli.check import check
from penstock.cli.compare import compare
from penstock.cli.console import errors
from penstock.cli.demo import demo
from penstock.cli.diagnose import diagnose
from penstock.cli.doctor import doctor
from penstock.cli.policies import policies
from penstock.cli.rehearse import rehearse
from penstock.cli.reproduce import reproduce
from penstock.errors import PenstockError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__)
def app() -> None:
    """Penstock: adaptive load management for PySpark streams."""


for command in (demo, diagnose, rehearse, compare, reproduce, policies, check, doctor):
    app.add_command(command)


def run() -> NoReturn:
    """Run the command line."""
    try:
        code = app(prog_name="penstock", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(0)
    except (PenstockError, click.ClickException) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        errors.print(f"penstock: {' '.join(message.split())}", markup=False, soft_wrap=True)
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        errors.print("interrupted; nothing was written")
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)
