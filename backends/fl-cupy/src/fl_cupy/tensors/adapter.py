"""One value, a CuPy array that nobody writes to; dtypes and devices as CuPy has them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fl_tensor import Device
from fl_tensor.backend import TensorAdapter
from fl_tensor.dtypes import ALL, DType, bfloat16

__all__ = ["FROM_CUPY", "TO_CUPY", "CupyAdapter", "cuda_device"]

#: CuPy has NumPy's dtypes. Few of its functions take bfloat16.
TO_CUPY: dict[DType, np.dtype[Any]] = {
    dtype: np.dtype(dtype.name) for dtype in ALL.values() if dtype is not bfloat16
}
FROM_CUPY = {theirs: ours for ours, theirs in TO_CUPY.items()}


@cache
def cuda_device(index: int) -> Device:
    """The device "cuda:index"."""
    return Device("cuda", index)


class CupyAdapter(TensorAdapter):
    """``array`` may be a view of another value's: no operation of the backend works in place."""

    __slots__ = ("__weakref__", "array", "device", "dtype")

    dtype: DType
    device: Device

    def __init__(self, array: Any, device: Device) -> None:
        self.array = array
        self.dtype = FROM_CUPY[array.dtype]
        self.device = device

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.array.shape
        return shape
