"""A Markdown extension that writes formulas as MathML, which browsers draw without any script."""

import xml.etree.ElementTree as ET
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor

# Formulas stand between dollars; a dollar before a digit or a space is money.
_BLOCK = r"\$\$(.+?)\$\$"
_INLINE = r"(?<![\\$\w])\$(?=[^\s$])([^$\n]+?)(?<=\S)\$(?!\d)"


class _Formula(InlineProcessor):
    def __init__(self, pattern: str, md: Markdown, display: Any) -> None:  # noqa: ANN401
        super().__init__(pattern, md)
        self.display = display

    def handleMatch(self, m: Any, data: str) -> tuple[str, int, int]:  # type: ignore[override]  # noqa: ANN401, N802
        """Return the formula as MathML, kept away from other patterns."""
        made = convert(m[1].strip(), display=self.display)
        ET.fromstring(made)  # noqa: S314 - made here: a formula that is no XML fails the build
        return self.md.htmlStash.store(made), m.start(0), m.end(0)


class MathMl(Extension):
    """Formulas in the text and in paragraphs of their own."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Add both patterns, before the ones for escapes and code."""
        md.inlinePatterns.register(_Formula(_BLOCK, md, "block"), "math-block", 186)
        md.inlinePatterns.register(_Formula(_INLINE, md, "inline"), "math-inline", 185)


def makeExtension(**options: Any) -> MathMl:  # noqa: ANN401, N802
    """Return the extension; called by Markdown."""
    return MathMl(**options)
