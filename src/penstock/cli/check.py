"""`penstock check`: the conformance suite on a policy of your own."""

from typing import Annotated

import typer

from penstock.checks import yield_checks
from penstock.cli.console import output
from penstock.cli.own import load_grouping


def check(
    spec: Annotated[str, typer.Argument(help="module:Class or file.py:Class of a grouping.")],
    instances: Annotated[int, typer.Option(help="Instances to check it with.")] = 5,
) -> None:
    """Run the conformance suite on a grouping of your own."""
    policy = load_grouping(spec)(instances)
    failed = 0
    for name, run in yield_checks(policy):
        try:
            run()
            output.print(f"[green]ok[/]    {name}")
        except Exception as error:
            failed += 1
            output.print(f"[red]fails[/] {name}: {type(error).__name__}: {error}")
    if failed:
        raise typer.Exit(1)
