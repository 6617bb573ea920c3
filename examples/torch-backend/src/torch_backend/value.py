"""One value: a `torch.Tensor` that nobody writes to."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

import fl_tensor as ft
from fl_tensor.backend import TensorAdapter

Shape = tuple[int, ...]
#: PyTorch's uint16, uint32 and uint64 can be stored, but hardly any operation takes them.
NAMES = "bool int8 int16 int32 int64 uint8 float16 bfloat16 float32 float64".split()
TO_TORCH = {ft.dtype(name): getattr(torch, name) for name in NAMES}
FROM_TORCH = {theirs: ours for ours, theirs in TO_TORCH.items()}


class Value(TensorAdapter):
    """`tensor` may be a view of another value's: no operation of the backend works in place."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    @property
    def shape(self) -> Shape:
        return tuple(self.tensor.shape)

    @property
    def dtype(self) -> ft.DType:
        return FROM_TORCH[self.tensor.dtype]

    @property
    def device(self) -> ft.Device:
        return ft.Device(self.tensor.device.type, self.tensor.device.index or 0)


def host_bytes(tensor: torch.Tensor) -> memoryview:
    """The memory of a contiguous tensor on the host. The view keeps the tensor alive."""
    if not tensor.numel():
        return memoryview(bytearray())
    memory: Any = ctypes.c_char * (tensor.numel() * tensor.element_size())
    array = memory.from_address(tensor.data_ptr())
    array.owner = tensor
    return memoryview(array).cast("B")
