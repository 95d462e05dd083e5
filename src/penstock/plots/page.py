"""A report as one self-contained HTML page."""

import base64
from collections.abc import Sequence
from html import escape

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 3rem auto; color: #222;
       padding: 0 1rem; }
h1 { font-size: 1.6rem } table { border-collapse: collapse; margin: 1.5rem 0 }
th, td { padding: .35rem .9rem; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left } img { max-width: 100% }
footer { color: #777; font-size: .85rem; margin-top: 3rem }
"""


def page(
    title: str, text: Sequence[str], rows: Sequence[dict[str, str]], *, image: bytes, footer: str
) -> bytes:
    """Return a page with paragraphs, a table and a picture; it loads nothing from elsewhere.

    Args:
        title: title of the page.
        text: paragraphs above the table.
        rows: rows of the table; the keys of the first row are the head.
        image: picture below the table, as PNG.
        footer: last line of the page.
    """
    paragraphs = "".join(f"<p>{escape(paragraph)}</p>" for paragraph in text)
    return sheet(title, [paragraphs, table(rows), picture(image, title)], footer)


def sheet(title: str, parts: Sequence[str], footer: str) -> bytes:
    """Return a page from parts that are HTML already.

    Args:
        title: title of the page.
        parts: parts below the title, as HTML.
        footer: last line of the page.
    """
    body = "\n".join(parts)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>
<body><h1>{escape(title)}</h1>{body}
<footer>{escape(footer)}</footer></body></html>
""".encode()


def table(rows: Sequence[dict[str, str]]) -> str:
    """Return a table as HTML; the keys of the first row are the head."""
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row.values()) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def picture(image: bytes, title: str) -> str:
    """Return a PNG as HTML that has the picture itself."""
    data = base64.b64encode(image).decode()
    return f'<img alt="{escape(title)}" src="data:image/png;base64,{data}">'
