"""HTML for notebooks: elements and tables, with everything in them escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["element", "table"]


def element(tag: str, text: str) -> str:
    """``<tag>text</tag>``, the text escaped."""
    return f"<{tag}>{escape(text)}</{tag}>"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A line of text over a table of texts; without a first row of titles if ``head`` is empty."""
    body = [_row("td", row) for row in rows]
    if head:
        body.insert(0, _row("th", head))
    return f"{element('div', caption)}<table>{''.join(body)}</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(element(tag, cell) for cell in cells)}</tr>"
