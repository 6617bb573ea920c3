"""One value, a `torch.Tensor` that nobody writes to; functions of tensors made operations."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

import fl_tensor as ft
from fl_tensor.backend import TensorAdapter, TensorBackend
from fl_tensor.dtypes import ALL

Shape = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]
Function = Callable[..., Any]
#: PyTorch's uint16, uint32 and uint64 can be stored, but hardly any operation takes them.
LACKING = frozenset({ft.uint16, ft.uint32, ft.uint64})
TO_TORCH = {d: getattr(torch, d.name) for d in ALL.values() if d not in LACKING}
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


def raw_bytes(tensor: torch.Tensor) -> memoryview:
    """The memory of a contiguous tensor on the host. The view keeps the tensor alive."""
    if not tensor.numel():
        return memoryview(bytearray())
    memory: Any = ctypes.c_char * (tensor.numel() * tensor.element_size())
    array = memory.from_address(tensor.data_ptr())
    array.owner = tensor
    return memoryview(array).cast("B")


def elementwise(function: Function) -> Any:
    def operation(self: TensorBackend, x: Value, *others: Value) -> Value:
        return Value(function(x.tensor, *[other.tensor for other in others]))

    return operation


def along(function: Function) -> Any:
    """Along one axis."""

    def operation(self: TensorBackend, x: Value, axis: int = -1) -> Value:
        return Value(function(x.tensor, axis))

    return operation


def reduction(function: Function) -> Any:
    """Over axes; over none it changes nothing, where PyTorch would take them all."""

    def operation(self: TensorBackend, x: Value, axis: Shape, keepdims: bool = False) -> Value:
        return Value(function(x.tensor, axis, keepdims)) if axis else x

    return operation
