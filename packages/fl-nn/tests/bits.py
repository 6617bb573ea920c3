"""Equality bit for bit, where the backend rounds in the same way each time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import fl_tensor as ft


def same(found: Any, wanted: Any, rel_tol: float = 1e-5) -> bool:
    """Whether two structures of lists, dicts and numbers are equal. On ``jit`` to ``rel_tol``: what
    is computed together decides the order in which sums are rounded."""
    if ft.current_backend().name == "jit":
        return _near(found, wanted, rel_tol)
    return bool(found == wanted)


def flat(nested: Any) -> Iterator[Any]:
    """The leaves of a structure of lists, tuples and dicts, in order."""
    if isinstance(nested, dict):
        nested = list(nested.values())
    if isinstance(nested, (list, tuple)):
        for item in nested:
            yield from flat(item)
    else:
        yield nested


def _near(a: Any, b: Any, rel_tol: float) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_near(a[k], b[k], rel_tol) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_near(x, y, rel_tol) for x, y in zip(a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=rel_tol, abs_tol=rel_tol / 10) or (a != a and b != b)
    return bool(a == b)
