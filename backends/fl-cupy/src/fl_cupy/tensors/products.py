"""Matrix products, by cuBLAS, and convolution as a product with unfolded patches (im2col).

K. Chellapilla, S. Puri, P. Simard, "High performance convolutional neural networks for document
processing", 2006.
"""

from __future__ import annotations

import math
from typing import Any

import cupy

from fl_cupy.tensors.adapter import CupyAdapter
from fl_cupy.tensors.placement import on_device
from fl_tensor import rules
from fl_tensor.backend import TensorBackend

Value = CupyAdapter
Shape = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]

#: Bytes of patches that are unfolded at a time.
PATCH_BYTES = 1 << 30


class Products(TensorBackend):
    """Mixed into the backend."""

    @on_device
    def matmul(self, x: Value, y: Value) -> Value:
        shape = rules.matmul(x, y).shape
        if not (x.array.size and y.array.size):
            return Value(cupy.zeros(shape, x.array.dtype), x.device)
        return Value(cupy.matmul(x.array, y.array), x.device)

    @on_device
    def conv(
        self, x: Value, w: Value, stride: Shape, padding: Padding,
        input_dilation: Shape, kernel_dilation: Shape, groups: int = 1,
    ) -> Value:  # fmt: skip
        rest = (stride, padding, input_dilation, kernel_dilation, groups)
        out = cupy.zeros(rules.conv(x, w, *rest).shape, x.array.dtype)
        if out.size and x.array.size and w.array.size:
            ready = _prepared(x.array, padding, input_dilation)
            _convolve(ready, w.array, stride, kernel_dilation, groups, out)
        return Value(out, x.device)


def _prepared(x: Any, padding: Padding, dilation: Shape) -> Any:
    """``x`` with zeros between its elements and around them; cropped where padding is negative."""
    spread = [(n - 1) * d + 1 for n, d in zip(x.shape[2:], dilation)]
    around = [(max(low, 0), max(high, 0)) for low, high in padding]
    sizes = [low + n + high for n, (low, high) in zip(spread, around)]
    if tuple(sizes) != x.shape[2:]:
        wide = cupy.zeros((*x.shape[:2], *sizes), x.dtype)
        places = (slice(low, low + n, d) for n, d, (low, _) in zip(spread, dilation, around))
        wide[(..., *places)] = x
        x = wide
    inner = (slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in zip(sizes, padding))
    return x[(..., *inner)]


def _convolve(x: Any, w: Any, stride: Shape, dilation: Shape, groups: int, out: Any) -> None:
    """Without padding; some images at a time."""
    batch, features = out.shape[:2]
    kernel, sizes = w.shape[2:], out.shape[2:]
    depth, places = math.prod(w.shape[1:]), math.prod(sizes)
    weights = w.reshape(groups, features // groups, depth)
    by_group = x.reshape(batch, groups, w.shape[1], *x.shape[2:])
    windows = _windows(by_group, kernel, sizes, stride, dilation)
    step = max(1, PATCH_BYTES // max(1, groups * depth * places * x.itemsize))
    # From (batch, groups, channels, *kernel, *sizes) to (groups, depth, batch * places).
    axes = (1, 2, *range(3, 3 + len(kernel)), 0, *range(3 + len(kernel), windows.ndim))
    for start in range(0, batch, step):
        part = windows[start : start + step]
        count = len(part)
        patches = part.transpose(axes).reshape(groups, depth, count * places)
        found = cupy.matmul(weights, patches).reshape(features, count, *sizes)
        out[start : start + step] = cupy.moveaxis(found, 1, 0)


def _windows(x: Any, kernel: Shape, sizes: Shape, stride: Shape, dilation: Shape) -> Any:
    """A view of x (batch, groups, channels, *spatial): of every element of the kernel the elements
    that it meets, (batch, groups, channels, *kernel, *sizes)."""
    steps = x.strides[3:]
    within = [s * d for s, d in zip(steps, dilation)]
    between = [s * d for s, d in zip(steps, stride)]
    shape = (*x.shape[:3], *kernel, *sizes)
    return cupy.lib.stride_tricks.as_strided(x, shape, (*x.strides[:3], *within, *between))
