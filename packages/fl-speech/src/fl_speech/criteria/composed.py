"""Constants in losses that are composed of tensor operations."""

from __future__ import annotations

import numpy as np

import fl_tensor as ft

#: The logarithm of an impossible path: finite, so that gradients stay numbers.
IMPOSSIBLE = -1e30


def constant(values: np.ndarray, dtype: ft.DType, like: ft.Array) -> ft.Tensor:
    """Values of the host on the device and the backend of `like`."""
    return ft.asarray(np.ascontiguousarray(values), dtype, like.device, like.backend)
