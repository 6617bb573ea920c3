"""Products of matrices and vectors."""

from __future__ import annotations

import fl_tensor as ft
from fl_tensor.array import Array


def matmul(x1: Array, x2: Array, /) -> Array:
    """Matrix product of the last two axes, leading ones broadcast; 1-d operands are vectors."""
    return ft.matmul(x1, x2)


def matrix_transpose(x: Array, /) -> Array:
    """The last two axes exchanged."""
    return x.mT
