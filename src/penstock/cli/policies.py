"""`penstock policies`: what there is."""

import inspect

import click
from rich.table import Table

from penstock.cli.console import output
from penstock.policies import Policy
from penstock.policies.costs import CostModel
from penstock.policies.grouping import Grouping

FAMILIES: dict[str, type[Policy]] = {"grouping": Grouping, "cost model": CostModel}


@click.command
def policies() -> None:
    """List the policies with their registered names and parameters."""
    table = Table(box=None, pad_edge=False)
    for column in ("name", "family", "class", "parameters", "what it does"):
        table.add_column(column)
    for family, base in FAMILIES.items():
        for name, cls in Policy.registered(base).items():
            summary = (inspect.getdoc(cls) or "").split("\n")[0]
            table.add_row(name, family, cls.__name__, ", ".join(cls.parameters()), summary)
    output.print(table)
