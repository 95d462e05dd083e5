"""Tables of claims in Markdown, from stored results."""

import textwrap
from collections.abc import Iterable
from typing import Any

from penstock.experiments.claims import Value

HEADS = "claim", "paper", "source", "goal", "tolerance", "ours", "holds"
# Longest line of a page, tables aside.
WIDTH = 100
# A page has its tables between these lines.
BEGIN, END = "<!-- claims: begin -->", "<!-- claims: end -->"


def shown(value: Value | None) -> str:
    """Return a value as text: numbers with separators, nothing for a missing value.

    Example:
        >>> shown(18362.0), shown(0.0101), shown(None)
        ('18,362', '0.0101', '')
    """
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,.0f}" if abs(value) >= 1000 and value == round(value) else f"{value:.10g}"


def stored(document: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a result that is kept in the repository: all but the rows."""
    return {name: document[name] for name in ("name", "date", "params", "claims")}


def markdown(documents: Iterable[dict[str, Any]]) -> str:
    """Return one table for each result, with its date, its seeds and its dependence."""
    return "\n".join(_one(document) for document in documents)


def _one(document: dict[str, Any]) -> str:
    params = document["params"]
    first, count = params["seed"], params["streams"]
    seeds = (
        f"seed {first}" if count == 1 else f"{count} streams, seeds {first} to {first + count - 1}"
    )
    machine = params.get("depends_on_machine")
    depends = f"depends on the machine: {machine}" if machine else "the same on any machine"
    claims = document["claims"]
    held = sum(claim["holds"] for claim in claims)
    title = f"`{document['name']}` ({seeds}; {document['date']}; {depends})."
    lines = [
        *textwrap.wrap(title, WIDTH, break_long_words=False, break_on_hyphens=False),
        f"{held} of {len(claims)} claims hold.",
        "",
        _row(HEADS),
        _row(["---"] * len(HEADS)),
        *(_row([_cell(claim, head) for head in HEADS]) for claim in claims),
        "",
    ]
    return "\n".join(lines)


def _cell(claim: dict[str, Any], head: str) -> str:
    if head == "holds":
        return "yes" if claim["holds"] else "**no**"
    return shown(claim[head]).replace("|", "\\|").replace("<", "&lt;")


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def with_tables(
    page: str, documents: Iterable[dict[str, Any]], *, missing: Iterable[str] = ()
) -> str:
    """Return a page whose tables are those of the results.

    Args:
        page: text of the page.
        documents: results.
        missing: names of experiments that have no stored result.
    """
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    names = "".join(f"- `{name}`\n" for name in missing)
    absent = f"\nThese experiments have no stored result:\n\n{names}" if names else ""
    return f"{before}{BEGIN}\n\n{markdown(documents)}{absent}\n{END}{after}"
