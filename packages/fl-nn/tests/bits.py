"""Equality bit for bit, where the backend rounds in the same way each time."""

from __future__ import annotations

import math
from typing import Any

import fl_tensor as ft


def same(found: Any, wanted: Any) -> bool:
    """Whether two structures of lists, dicts and numbers are equal. On ``jit`` nearly: what is
    computed together decides the order in which sums are rounded."""
    return _near(found, wanted) if ft.current_backend().name == "jit" else found == wanted


def _near(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_near(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_near, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-5) or (a != a and b != b)
    return bool(a == b)
