"""Markdown tables, and the text form of a contract's member."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def is_member(value: Any) -> bool:
    """Whether a part of a manifest is one member (a method, a field, an operation)."""
    return isinstance(value, Mapping) and ("signature" in value or "type" in value)


def cell(text: str) -> str:
    """``text`` for one cell of a table: a line, with the bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """The lines of a table; the cells are Markdown."""
    heads = list(heads)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]
