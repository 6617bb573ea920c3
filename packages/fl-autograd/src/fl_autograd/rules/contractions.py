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

# ---- convolution: linear in both operands, and so are its gradients ------------------------------


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
    rest = (stride, padding, input_dilation, kernel_dilation, groups)
    return ops.conv_data_gradient(g, w, x_shape, *rest)


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
    rest = (stride, padding, input_dilation, kernel_dilation, groups)
    return ops.conv_weight_gradient(g, x, w_shape, *rest)


def _data_gradient_of_gradient(
    ops: Any,
    g: Any,
    w: Any,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int,
) -> Any:
    return ops.conv(g, w, stride, padding, input_dilation, kernel_dilation, groups)


def _data_gradient_of_w(
    ops: Any,
    g: Any,
    gradient: Any,
    w_shape: Shape,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int,
) -> Any:
    rest = (stride, padding, input_dilation, kernel_dilation, groups)
    return ops.conv_weight_gradient(gradient, g, w_shape, *rest)


def _weight_gradient_of_gradient(
    ops: Any,
    g: Any,
    x: Any,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int,
) -> Any:
    return ops.conv(x, g, stride, padding, input_dilation, kernel_dilation, groups)


def _weight_gradient_of_x(
    ops: Any,
    g: Any,
    gradient: Any,
    x_shape: Shape,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int,
) -> Any:
    rest = (stride, padding, input_dilation, kernel_dilation, groups)
    return ops.conv_data_gradient(gradient, g, x_shape, *rest)


rule("conv", x=_conv_x, w=_conv_w)
rule("conv_data_gradient", gradient=_data_gradient_of_gradient, w=_data_gradient_of_w)
rule("conv_weight_gradient", gradient=_weight_gradient_of_gradient, x=_weight_gradient_of_x)
