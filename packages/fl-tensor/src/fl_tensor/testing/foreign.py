"""Checks of a table of foreign names (``fl_tensor.foreign_names.tables``), for tests."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from fl_tensor.foreign_names import tables

__all__ = ["answer", "superfluous", "unanswered"]


def unanswered(where: Any, listed: Path, *paths: Path) -> list[str]:
    """The names of a list (words in a file) that ``where``, a module or an array, does not have and
    that are in no table."""
    names, ours = listed.read_text(encoding="utf-8").split(), set(dir(where))
    return [name for name in names if name not in ours and tables.find(name, *paths) is None]


def superfluous(where: Any, path: Path) -> list[str]:
    """The names of a table that ``where`` has, and those that are in it twice."""
    counts = Counter(row.name for row in tables.rows(path) if row.kind != "expected")
    ours = set(dir(where))
    return [name for name, count in counts.items() if name in ours or count > 1]


def answer(where: Any, name: str) -> str:
    """The message of the AttributeError for a name that ``where`` does not have."""
    try:
        getattr(where, name)
    except AttributeError as error:
        return str(error)
    raise AssertionError(f"{where!r} has {name}")
