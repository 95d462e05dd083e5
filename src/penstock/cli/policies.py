"""`penstock policies`: the list of all policies."""

import inspect
import textwrap
from itertools import groupby

import click

from penstock.checks import discover
from penstock.cli.console import output
from penstock.policies import Policy

_INDENT = " " * 6


@click.command
@click.option("--parameters", is_flag=True, help="List the parameters of each policy, too.")
def policies(parameters: bool) -> None:
    """List the policies with their registered names, by family."""
    found = discover()
    widest = max(len(cls.name) for cls in found)
    for family, members in groupby(found, key=lambda cls: cls.family):
        output.print(f"[bold]{family}s[/]")
        for cls in members:
            output.print(f"  {cls.name:<{widest}}  {cls.__name__}", markup=False)
            _print_indented((inspect.getdoc(cls) or "").split("\n")[0])
            if parameters:
                _print_indented(_parameters(cls))
        output.print()


def _parameters(cls: type[Policy]) -> str:
    return f"Parameters: {', '.join(cls.parameters()) or 'none'}."


def _print_indented(text: str) -> None:
    filled = textwrap.fill(text, output.width, initial_indent=_INDENT, subsequent_indent=_INDENT)
    output.print(filled, markup=False, soft_wrap=True)
