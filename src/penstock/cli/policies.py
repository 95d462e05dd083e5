"""`penstock policies`: what there is."""

import inspect

import click
from rich.table import Table

from penstock.checks import discover
from penstock.cli.console import output


@click.command
def policies() -> None:
    """List the policies with their registered names and parameters."""
    table = Table(box=None, pad_edge=False)
    found = discover()
    widest = max(len(cls.name) for cls in found)
    table.add_column("name", min_width=widest)
    for column in ("family", "class", "parameters", "what it does"):
        table.add_column(column)
    for cls in found:
        summary = (inspect.getdoc(cls) or "").split("\n")[0]
        table.add_row(cls.name, cls.family, cls.__name__, ", ".join(cls.parameters()), summary)
    output.print(table)
