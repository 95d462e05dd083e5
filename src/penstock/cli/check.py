"""`penstock check`: the conformance suite on a policy of your own."""

import click

from penstock.checks import yield_checks
from penstock.cli.console import output
from penstock.cli.own import load_grouping, make


@click.command
@click.argument("grouping")
@click.option("--instances", default=5, help="Instances to check it with.")
def check(grouping: str, instances: int) -> int:
    """Run the conformance suite on GROUPING, one of your own: module:Class or file.py:Class."""
    policy = make(load_grouping(grouping), instances)
    failed = 0
    for name, run in yield_checks(policy):
        try:
            run()
            output.print(f"[green]ok[/]    {name}")
        except Exception as error:
            failed += 1
            output.print(f"[red]fails[/] {name}: {type(error).__name__}: {error}")
    return 1 if failed else 0
