"""The required primitives of `tensor 1.0` as calls of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import Any

import torch

import fl_tensor as ft
from fl_tensor import rules
from fl_tensor.dtypes import sum_dtype
from torch_backend.capabilities import Capabilities
from torch_backend.convolution import convolve
from torch_backend.derived import FasterOps
from torch_backend.philox import words
from torch_backend.value import TO_TORCH, Padding, Shape, Value, elementwise, raw_bytes, reduction


def _places(starts: Shape, sizes: Shape, steps: Shape) -> tuple[tuple[slice, ...], list[int]]:
    """Slices with positive steps, as PyTorch knows them, and the axes to be reversed after that."""
    found = []
    for start, size, step in zip(starts, sizes, steps, strict=True):
        last = start + (size - 1) * step
        first, end = (min(start, last), max(start, last) + 1) if size else (0, 0)
        found.append(slice(first, end, abs(step)))
    return tuple(found), [axis for axis, step in enumerate(steps) if step < 0]


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """16-bit floats in 32 bits, where PyTorch loses digits with them."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _product(function: Any, x: Value, y: Value, *rest: Any) -> Value:
    """Of integers in 64 bits on the host, where PyTorch has them all; wrapped afterwards."""
    left, right = x.tensor, y.tensor
    if not x.dtype.is_integer:
        return Value(function(left, right, *rest))
    return Value(function(left.cpu().long(), right.cpu().long(), *rest).to(left))


class TorchBackend(FasterOps, Capabilities):
    """Eager PyTorch on the CPU and on the CUDA devices that PyTorch sees."""

    CONTRACT = (1, 0)
    name = "torch"
    dtypes = frozenset(TO_TORCH)
    capabilities = frozenset({"complex", "linalg", "fft"})
    checks_shapes = True  # PyTorch does; where it would let something pass, a rule is asked
    max_ndim = 64

    def __init__(self) -> None:
        # The contract's float32 has 24 bits in convolutions, too. The switch is PyTorch's, for the
        # whole process; that of matrix products is off unless somebody turns it on.
        torch.backends.cudnn.allow_tf32 = False

    def devices(self) -> list[ft.Device]:
        return [ft.Device(), *(ft.Device("cuda", i) for i in range(torch.cuda.device_count()))]

    def synchronize(self, device: ft.Device) -> None:
        if device.kind == "cuda":
            torch.cuda.synchronize(device.index)

    def full(self, shape: Shape, value: Any, dtype: ft.DType, device: ft.Device) -> Value:
        return Value(torch.full(shape, value, dtype=TO_TORCH[dtype], device=str(device)))

    def arange(self, start: Any, stop: Any, step: Any, dtype: ft.DType, device: ft.Device) -> Value:
        whole = isinstance(start, int) and isinstance(step, int)
        wide = torch.int64 if whole else torch.float64
        places = torch.arange(max(0, ceil((stop - start) / step)), dtype=wide, device=str(device))
        return Value((places * step + start).to(TO_TORCH[dtype]))

    def from_host(
        self, data: Any, shape: Shape, dtype: ft.DType, device: ft.Device, blocking: bool = True
    ) -> Value:
        tensor = torch.empty(shape, dtype=TO_TORCH[dtype])
        raw_bytes(tensor)[:] = data
        return Value(tensor.to(str(device)))

    def to_host(self, x: Value, blocking: bool = True) -> memoryview:
        return raw_bytes(x.tensor.cpu().resolve_conj().resolve_neg().contiguous()).toreadonly()

    def from_dlpack(self, source: Any, device: ft.Device) -> Value | None:
        found = Value(torch.from_dlpack(source))
        return found if found.device == device else None

    def random_bits(self, seed: int, offset: int, shape: Shape, device: ft.Device) -> Value:
        return Value(words(seed, offset, prod(shape), str(device)).reshape(shape))

    def reshape(self, x: Value, shape: Shape) -> Value:
        return Value(x.tensor.reshape(shape))

    def permute(self, x: Value, axes: Shape) -> Value:
        return Value(x.tensor.permute(axes))

    def broadcast_to(self, x: Value, shape: Shape) -> Value:
        return Value(x.tensor.expand(shape))

    def concatenate(self, xs: Sequence[Value], axis: int = 0) -> Value:
        rules.concatenate(xs, axis)  # PyTorch passes over arrays of shape (0,)
        return Value(torch.cat([x.tensor for x in xs], axis))

    def pad(self, x: Value, low: Shape, high: Shape, interior: Shape, value: Any = 0) -> Value:
        out = x.tensor.new_full(rules.pad(x, low, high, interior, value).shape, value)
        steps = tuple(between + 1 for between in interior)
        out[_places(low, x.shape, steps)[0]] = x.tensor
        return Value(out)

    def slice(self, x: Value, starts: Shape, sizes: Shape, steps: Shape) -> Value:
        rules.slice(x, starts, sizes, steps)  # PyTorch cuts off what lies outside
        places, reverse = _places(starts, sizes, steps)
        part = x.tensor[places]
        return Value(part.flip(reverse) if reverse else part)

    def slice_update(
        self, x: Value, starts: Shape, steps: Shape, updates: Value, donate: bool = False
    ) -> Value:
        rules.slice(x, starts, updates.shape, steps)
        places, reverse = _places(starts, updates.shape, steps)
        out = x.tensor.clone()
        out[places] = updates.tensor.flip(reverse) if reverse else updates.tensor
        return Value(out)

    def gather(self, x: Value, indices: Value, axis: int = 0) -> Value:
        shape = rules.gather(x, indices, axis).shape
        return Value(x.tensor.index_select(axis, indices.tensor.reshape(-1)).reshape(shape))

    def scatter(
        self, x: Value, indices: Value, updates: Value, axis: int = 0, mode: str = "set",
        donate: bool = False,
    ) -> Value:  # fmt: skip
        rules.scatter(x, indices, updates, axis, mode, donate)
        at, size = indices.tensor.reshape(-1).long(), x.shape[axis]
        rows = updates.tensor.reshape((*x.shape[:axis], len(at), *x.shape[axis + 1 :]))
        if mode == "add":
            return Value(_wide(x.tensor).index_add(axis, at, _wide(rows)).to(rows.dtype))
        # Of duplicates the last stays, which `index_copy` does not promise: it gets no others.
        order = torch.arange(len(at), device=at.device)
        last = at.new_full((size,), -1).scatter_reduce(0, at, order, "amax")
        places = last.ge(0).nonzero().squeeze(1)
        return Value(x.tensor.index_copy(axis, places, rows.index_select(axis, last[places])))

    def sort(self, x: Value, axis: int = -1, descending: bool = False) -> Value:
        return Value(torch.sort(x.tensor, dim=axis, descending=descending, stable=True)[0])

    def argsort(self, x: Value, axis: int = -1, descending: bool = False) -> Value:
        return Value(torch.sort(x.tensor, dim=axis, descending=descending, stable=True)[1])

    def nonzero(self, x: Value) -> tuple[Value, ...]:
        return tuple(map(Value, x.tensor.nonzero().unbind(1)))

    def cumulative_sum(self, x: Value, axis: int = -1) -> Value:
        return Value(torch.cumsum(x.tensor, axis, dtype=TO_TORCH[sum_dtype(x.dtype)]))

    negative, absolute, exp = map(elementwise, (torch.neg, torch.abs, torch.exp))
    expm1, log, log1p = map(elementwise, (torch.expm1, torch.log, torch.log1p))
    sqrt, sin, cos = map(elementwise, (torch.sqrt, torch.sin, torch.cos))
    tanh, floor, ceil = map(elementwise, (torch.tanh, torch.floor, torch.ceil))
    add, subtract, multiply = map(elementwise, (torch.add, torch.sub, torch.mul))
    divide, floor_divide = elementwise(torch.div), elementwise(torch.floor_divide)
    remainder, power, atan2 = map(elementwise, (torch.remainder, torch.pow, torch.atan2))
    maximum, minimum = elementwise(torch.maximum), elementwise(torch.minimum)
    equal, less, where = map(elementwise, (torch.eq, torch.lt, torch.where))
    bitwise_and, bitwise_or = elementwise(torch.bitwise_and), elementwise(torch.bitwise_or)
    bitwise_invert, bitwise_xor = elementwise(torch.bitwise_not), elementwise(torch.bitwise_xor)
    bitwise_left_shift = elementwise(torch.bitwise_left_shift)
    bitwise_right_shift = elementwise(torch.bitwise_right_shift)

    def erf(self, x: Value) -> Value:
        return Value(torch.erf(_wide(x.tensor)).to(x.tensor.dtype))

    def sign(self, x: Value) -> Value:
        sign = torch.sgn(x.tensor)  # which makes 0 of NaN
        return Value(torch.where(x.tensor == x.tensor, sign, x.tensor))

    def round(self, x: Value) -> Value:
        if x.dtype.kind != "c":
            return Value(torch.round(x.tensor))
        parts = torch.view_as_real(x.tensor.resolve_conj())
        return Value(torch.view_as_complex(torch.round(parts)))

    def cast(self, x: Value, dtype: ft.DType) -> Value:
        return Value(x.tensor.to(TO_TORCH[dtype]))

    max, min = reduction(torch.amax), reduction(torch.amin)

    def sum(self, x: Value, axis: Shape, keepdims: bool = False) -> Value:
        dtype = TO_TORCH[sum_dtype(x.dtype)]
        if not axis:  # which means all axes to PyTorch
            return Value(x.tensor.to(dtype))
        return Value(torch.sum(x.tensor, axis, keepdims, dtype=dtype))

    def prod(self, x: Value, axis: Shape, keepdims: bool = False) -> Value:
        result = _wide(x.tensor.to(TO_TORCH[sum_dtype(x.dtype)]))
        for each in sorted(axis, reverse=True):
            result = torch.prod(result, each, keepdims)
        return Value(result.to(TO_TORCH[sum_dtype(x.dtype)]))

    def argmax(self, x: Value, axis: int, keepdims: bool = False) -> Value:
        tensor = x.tensor.byte() if x.dtype is ft.bool else x.tensor
        return Value(torch.argmax(tensor, axis, keepdims))

    def matmul(self, x: Value, y: Value) -> Value:
        rules.matmul(x, y)  # PyTorch takes vectors, too
        return _product(torch.matmul, x, y)

    def conv(
        self, x: Value, w: Value, stride: Shape, padding: Padding,
        input_dilation: Shape, kernel_dilation: Shape, groups: int = 1,
    ) -> Value:  # fmt: skip
        rest = (stride, padding, input_dilation, kernel_dilation, groups)
        shape = rules.conv(x, w, *rest).shape
        if not (prod(shape) and x.tensor.numel() and w.tensor.numel()):
            return Value(x.tensor.new_zeros(shape))
        return _product(convolve, x, w, *rest)
