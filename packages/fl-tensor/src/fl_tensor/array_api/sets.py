"""Set functions: unique elements and membership. NaNs are all different."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_tensor.array_api.signatures import unary
from fl_tensor.arrays.array import Array

unique_all = unary(ft.unique_all)
unique_counts = unary(ft.unique_counts)
unique_inverse = unary(ft.unique_inverse)
unique_values = unary(ft.unique_values)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Whether each element of ``x1`` is in ``x2``, or with ``invert`` is not; one may be a Python
    scalar."""
    return ft.isin(x1, x2, invert)
