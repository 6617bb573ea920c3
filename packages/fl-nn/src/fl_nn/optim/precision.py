"""Room for sums: what is gathered over many values or steps does not fit 16 bits."""

from __future__ import annotations

import fl_tensor as ft


def widened(x: ft.Tensor) -> ft.Tensor:
    """`x`, in float32 where it has less."""
    return x.astype(ft.float32) if x.dtype.itemsize < 4 else x
