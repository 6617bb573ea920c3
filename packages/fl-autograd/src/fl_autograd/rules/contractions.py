"""Rules of matrix products and convolutions."""

from __future__ import annotations

import math
from typing import Any

from fl_autograd.rules.table import rule

Shape = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]


def transposed(ops: Any, x: Any) -> Any:
    """The last two axes exchanged."""
    rank = len(x.shape)
    return ops.permute(x, (*range(rank - 2), rank - 1, rank - 2))


def _matmul_x(ops: Any, g: Any, x_shape: Shape, y: Any) -> Any:
    if len(x_shape) == 2 and len(y.shape) > 2:  # one product instead of one per batch, then a sum
        rows = ops.moveaxis(g, len(g.shape) - 2, 0)
        columns = ops.moveaxis(y, len(y.shape) - 2, 0)
        flat = math.prod(g.shape) // x_shape[0] if x_shape[0] else 0
        rows = ops.reshape(rows, (x_shape[0], flat))
        return ops.matmul(rows, ops.permute(ops.reshape(columns, (x_shape[1], flat)), (1, 0)))
    return ops.matmul(g, transposed(ops, y))


def _matmul_y(ops: Any, g: Any, y_shape: Shape, x: Any) -> Any:
    if len(y_shape) == 2 and len(x.shape) > 2:
        rows = math.prod(x.shape[:-1])
        left = ops.reshape(x, (rows, x.shape[-1]))
        return ops.matmul(ops.permute(left, (1, 0)), ops.reshape(g, (rows, y_shape[1])))
    return ops.matmul(transposed(ops, x), g)


rule("matmul", x=_matmul_x, y=_matmul_y)

# ---- convolution: both gradients are convolutions ------------------------------------------------


def _extent(n: int, dilation: int) -> int:
    return (n - 1) * dilation + 1 if n else 0


def _conv_x(
    ops: Any,
    g: Any,
    x_shape: Shape,
    w: Any,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int,
) -> Any:
    # The gradient, dilated by the stride, convolved with the flipped kernel whose feature and
    # channel axes are exchanged; the input's dilation becomes the stride.
    if 0 in g.shape or 0 in x_shape or 0 in w.shape:
        return ops.full(x_shape, 0, g.dtype, g.device)
    features, channels, *kernel = w.shape
    spatial = tuple(range(2, 2 + len(kernel)))
    flipped = ops.flip(w, spatial) if any(k > 1 for k in kernel) else w
    if groups == 1:
        flipped = ops.permute(flipped, (1, 0, *spatial))
    else:
        flipped = ops.reshape(flipped, (groups, features // groups, channels, *kernel))
        flipped = ops.permute(flipped, (0, 2, 1, *(i + 1 for i in spatial)))
        flipped = ops.reshape(flipped, (groups * channels, features // groups, *kernel))
    back = []
    for i, k in enumerate(kernel):
        reach = _extent(k, kernel_dilation[i])
        low = reach - 1 - padding[i][0]
        wanted = _extent(x_shape[2 + i], input_dilation[i]) + reach - 1
        back.append((low, wanted - low - _extent(g.shape[2 + i], stride[i])))
    return ops.conv(g, flipped, input_dilation, tuple(back), stride, kernel_dilation, groups)


def _conv_w(
    ops: Any,
    g: Any,
    x: Any,
    w_shape: Shape,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int,
) -> Any:
    # The input convolved with the gradient as kernel: batch and channels change places, the stride
    # dilates the kernel and the kernel's dilation becomes the stride.
    if 0 in g.shape or 0 in x.shape or 0 in w_shape:
        return ops.full(w_shape, 0, g.dtype, g.device)
    batch, _, *size = x.shape
    features, channels, *kernel = w_shape
    rest = tuple(range(2, 2 + len(kernel)))
    if groups == 1:
        image = ops.permute(x, (1, 0, *rest))
    else:
        image = ops.reshape(x, (batch, groups, channels, *size))
        image = ops.permute(image, (2, 1, 0, *(i + 1 for i in rest)))
        image = ops.reshape(image, (channels, groups * batch, *size))
    filters = ops.permute(g, (1, 0, *rest))
    around = []
    for i, k in enumerate(kernel):
        low = padding[i][0]
        wanted = (k - 1) * kernel_dilation[i] + _extent(g.shape[2 + i], stride[i])
        around.append((low, wanted - low - _extent(size[i], input_dilation[i])))
    result = ops.conv(
        image, filters, kernel_dilation, tuple(around), input_dilation, stride, groups
    )
    return ops.permute(result, (1, 0, *rest))


rule("conv", x=_conv_x, w=_conv_w)
