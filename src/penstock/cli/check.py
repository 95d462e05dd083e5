"""`penstock check`: the conformance suite on a policy of your own."""

import click
from rich.markup import escape

from penstock.checks import yield_checks
from penstock.cli.console import output
from penstock.cli.own import load, make
from penstock.policies.grouping import Grouping
from penstock.policies.placement import Placer
from penstock.policies.scaling import Scaler
from penstock.policies.shedding import Shedder, average


@click.command
@click.argument("policy")
@click.option("--instances", default=5, help="Number of instances of a grouping.")
def check(policy: str, instances: int) -> int:
    """Run the conformance suite on a policy of your own.

    POLICY is a class, as module:Class or file.py:Class. It may be a grouping, a shedder, a scaler,
    or a placer.
    """
    cls = load(policy, Grouping, Shedder, Scaler, Placer)
    given = {"grouping": instances, "shedder": average("20 ms"), "scaler": 8, "placer": 10}
    own = make(cls, given[cls.family])
    failed = 0
    for name, run in yield_checks(own):
        try:
            run()
            output.print(f"[green]ok[/]    {name}")
        except (Exception, SystemExit) as error:
            failed += 1
            reason = escape(f"{type(error).__name__}: {error}")
            output.print(f"[red]fails[/] {name}: {reason}")
    return 1 if failed else 0
