"""Matrix and vector products."""

from __future__ import annotations

from collections.abc import Sequence

import fl_tensor as ft
from fl_tensor.arrays.array import Array


def matmul(x1: Array, x2: Array, /) -> Array:
    """Matrix product of the last two axes, leading ones broadcast; 1-d operands are vectors."""
    return ft.matmul(x1, x2)


def matrix_transpose(x: Array, /) -> Array:
    """The last two axes exchanged."""
    return x.mT


def tensordot(
    x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Array:
    """Sums of products over pairs of axes, or over the last n of ``x1`` and first n of ``x2``."""
    return ft.tensordot(x1, x2, axes)


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """``sum(conj(x1) * x2)`` along an axis; the others broadcast."""
    return ft.vecdot(x1, x2, axis)
