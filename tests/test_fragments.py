"""Python blocks of the docs that are parts of a job: they parse, and call what exists.

Blocks with `>>>` run as doctests. The job of the README, the first stream and the own policy run in
`spark/test_pages.py`, and the slow job in `spark/test_scripts.py`. The others need a query or a
cluster of the reader's own, so only names and arguments are checked.
"""

import ast
import importlib
import inspect
import re
import textwrap
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FRAGMENTS = [
    pytest.param(text, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, text in enumerate(
        re.findall(r"^```python\b[^\n]*\n(.*?)^```", page.read_text(), re.M | re.S)
    )
    if ">>>" not in text
]


def resolved(node, names):
    """The object of Penstock that an expression names; None for all others."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = resolved(node.value, names)
        if inspect.ismodule(owner):
            assert hasattr(owner, node.attr), f"{owner.__name__} has no {node.attr}"
            return getattr(owner, node.attr)
    return None


def imported(tree):
    """The objects of Penstock that a block imports, by name."""
    names = {"penstock": penstock}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("penstock"):
            module = importlib.import_module(node.module)
            for one in node.names:
                assert hasattr(module, one.name), f"{node.module} has no {one.name}"
                names[one.asname or one.name] = getattr(module, one.name)
    return names


@pytest.mark.parametrize("text", FRAGMENTS)
def test_fragments_call_what_exists(text):
    tree = ast.parse(textwrap.dedent(text))
    names = imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            resolved(node, names)
        if isinstance(node, ast.Call) and callable(called := resolved(node.func, names)):
            parameters = inspect.signature(called).parameters.values()
            if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
                continue
            known = {one.name for one in parameters}
            used = {one.arg for one in node.keywords if one.arg is not None}
            assert used <= known, f"{called.__name__} does not take {used - known}"
