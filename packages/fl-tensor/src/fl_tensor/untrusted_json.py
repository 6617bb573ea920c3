"""Strict reader of JSON in the heads of files.

A head is untrusted: names that appear twice, numbers beyond 64 bits, NaN, deep nesting and millions
of small objects are errors. Readers report them as errors of their own that name the file.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

__all__ = ["MAX_MARKS", "marks", "parse"]

#: Brackets, colons and commas of a head. They become objects of many times their size.
MAX_MARKS = 2_000_000
#: Characters of the longest integer of 64 bits, and some room.
_DIGITS = 24


def parse(text: bytes) -> Any:
    """The value of ``text`` in UTF-8. Raises ValueError with the reason."""
    try:
        return json.loads(
            text, object_pairs_hook=_unique, parse_int=_integer, parse_constant=_constant
        )
    except RecursionError as error:
        raise ValueError(str(error)) from None


def marks(text: bytes) -> int:
    """The number of brackets, colons and commas, strings included: a bound of its structure."""
    return sum(map(text.count, (b"{", b"[", b":", b",")))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _constant(name: str) -> NoReturn:
    raise ValueError(f"a number {name}")
