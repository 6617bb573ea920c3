"""Tables of foreign names: their form, and the errors that they word.

A table is a text file of sections. Empty lines and comments (#) mean nothing.

``[write]`` and ``[write: on the page]``
    A name and our way in each line. Rows of the second kind are in docs/from-pytorch.md.
``[synonyms]``
    A name and another name of ours in each line: both are the same function.
``[functions]``, ``[in place]``
    Names alone. The function of ``ft`` has the same name; the in-place method has ``_`` behind it.
``[not planned: REASON]``, ``[not needed: REASON]``
    Names alone; ``*`` stands for any letters.
``[expected]``
    Names alone, which need no row because they will be ours.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

__all__ = ["FUNCTIONS", "METHODS", "Row", "find", "missing_attribute", "rows"]

FOLDER = Path(__file__).parent
#: The tables of the names of ``fl_tensor`` itself; the first that has a name answers.
FUNCTIONS = (FOLDER / "numpy.txt", FOLDER / "torch.txt", FOLDER / "jax.txt")
METHODS = FOLDER / "methods.txt"


class Row(NamedTuple):
    """A name (or pattern), the section that it is in, and what its line says about it."""

    name: str
    section: str
    text: str

    @property
    def kind(self) -> str:
        """ "synonym", "answered", "not planned" or "expected"."""
        first = self.section.partition(":")[0]
        named = {"synonyms": "synonym", "not planned": first, "expected": first}
        return named.get(first, "answered")

    @property
    def way(self) -> str | None:
        """What the error says after the colon; None where it says nothing."""
        kind, _, reason = self.section.partition(": ")
        if kind == "write":
            return f"write {self.text}"
        if kind == "functions":
            return f"write ft.{self.name}(x, ...)"
        if kind == "in place":
            return f"write x = ft.{self.name.rstrip('_')}(x, ...); arrays are values"
        return f"{kind} ({reason})" if kind in ("not planned", "not needed") else None


@functools.cache
def rows(path: Path) -> tuple[Row, ...]:
    """All rows of a table, in order. Raises ValueError for a line outside a section."""
    return tuple(_parsed(path.read_text(encoding="utf-8")))


def _parsed(text: str) -> Iterator[Row]:
    section = ""
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        if line[0] == "[":
            section = line.strip("[]")
        elif not section:
            raise ValueError(f"{line!r} is in no section")
        elif section.startswith(("write", "synonyms")):
            name, _, said = line.partition(" ")
            yield Row(name, section, said.strip())
        else:
            yield from (Row(name, section, "") for name in line.split())


def find(name: str, *paths: Path) -> Row | None:
    """The row of a name in the first table that has one."""
    for path in paths:
        for row in rows(path):
            if row.name == name or ("*" in row.name and fnmatchcase(name, row.name)):
                return row
    return None


def missing_attribute(owner: str, name: str, *paths: Path) -> AttributeError:
    """The error for the attribute ``name`` of ``owner`` ("module 'fl_nn'"): with our way where a
    table has the name, Python's own otherwise."""
    row = find(name, *paths)
    text = f"{owner} has no attribute {name!r}"
    if row is None or row.way is None:
        return AttributeError(text)
    # Without its context: Python would add the name that looks most like it.
    return AttributeError(f"{text}: {row.way}", name="", obj=None)
