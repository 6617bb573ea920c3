"""Gradients of a convolution, composed of another convolution.

Both are what libraries call dgrad and wgrad (cuDNN's backward data and backward filter, oneDNN's
backward by data and by weights). As convolutions with exchanged stride and dilation: V. Dumoulin
and F. Visin, "A guide to convolution arithmetic for deep learning", 2016, section 4.
"""

from __future__ import annotations

from typing import Any

from fl_tensor import rules
from fl_tensor.errors import ShapeError
from fl_tensor.roles import N, Ops, Shape

__all__ = ["conv_data_gradient", "conv_weight_gradient"]

SINCE = {"conv_data_gradient": "1.1", "conv_weight_gradient": "1.1"}

Padding = tuple[tuple[int, int], ...]


def conv_data_gradient(
    ops: Ops,
    gradient: N,
    w: N,
    shape: Shape,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int = 1,
) -> Any:
    """The gradient of an array ``x`` of ``shape`` (batch, channels, *spatial), ``gradient`` being
    that of ``conv(x, w, stride, padding, input_dilation, kernel_dilation, groups)``. Raises
    ShapeError where ``gradient`` is not shaped as that convolution. Accumulation as ``matmul``."""
    rest = (stride, padding, input_dilation, kernel_dilation, groups)
    check_conv_gradient("conv_data_gradient", gradient.shape, shape, w.shape, *rest)
    # The gradient, dilated by the stride, convolved with the flipped kernel whose feature and
    # channel axes are exchanged; the input's dilation becomes the stride.
    if 0 in gradient.shape or 0 in shape or 0 in w.shape:
        return ops.full(shape, 0, gradient.dtype, gradient.device)
    features, channels, *kernel = w.shape
    spatial = tuple(range(2, 2 + len(kernel)))
    flipped = ops.flip(w, spatial) if max(kernel) > 1 else w
    if groups == 1:
        flipped = ops.permute(flipped, (1, 0, *spatial))
    else:
        flipped = ops.reshape(flipped, (groups, features // groups, channels, *kernel))
        flipped = ops.permute(flipped, (0, 2, 1, *(i + 1 for i in spatial)))
        flipped = ops.reshape(flipped, (groups * channels, features // groups, *kernel))
    around = []
    for i, k in enumerate(kernel):
        reach = _extent(k, kernel_dilation[i])
        low = reach - 1 - padding[i][0]
        wanted = _extent(shape[2 + i], input_dilation[i]) + reach - 1
        around.append((low, wanted - low - _extent(gradient.shape[2 + i], stride[i])))
    return ops.conv(
        gradient, flipped, input_dilation, tuple(around), stride, kernel_dilation, groups
    )


def conv_weight_gradient(
    ops: Ops,
    gradient: N,
    x: N,
    shape: Shape,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int = 1,
) -> Any:
    """The gradient of weights ``w`` of ``shape`` (features, channels / groups, *kernel),
    ``gradient`` being that of ``conv(x, w, stride, padding, input_dilation, kernel_dilation,
    groups)``. Raises ShapeError where ``gradient`` is not shaped as that convolution. Accumulation
    as ``matmul``."""
    rest = (stride, padding, input_dilation, kernel_dilation, groups)
    check_conv_gradient("conv_weight_gradient", gradient.shape, x.shape, shape, *rest)
    # The input convolved with the gradient as kernel: batch and channels change places, the stride
    # dilates the kernel and the kernel's dilation becomes the stride.
    if 0 in gradient.shape or 0 in x.shape or 0 in shape:
        return ops.full(shape, 0, gradient.dtype, gradient.device)
    batch, _, *size = x.shape
    _, channels, *kernel = shape
    spatial = tuple(range(2, 2 + len(kernel)))
    if groups == 1:
        image = ops.permute(x, (1, 0, *spatial))
    else:
        image = ops.reshape(x, (batch, groups, channels, *size))
        image = ops.permute(image, (2, 1, 0, *(i + 1 for i in spatial)))
        image = ops.reshape(image, (channels, groups * batch, *size))
    filters = ops.permute(gradient, (1, 0, *spatial))
    around = []
    for i, k in enumerate(kernel):
        low = padding[i][0]
        wanted = (k - 1) * kernel_dilation[i] + _extent(gradient.shape[2 + i], stride[i])
        around.append((low, wanted - low - _extent(size[i], input_dilation[i])))
    result = ops.conv(
        image, filters, kernel_dilation, tuple(around), input_dilation, stride, groups
    )
    return ops.permute(result, (1, 0, *spatial))


def check_conv_gradient(
    op: str,
    gradient: Shape,
    x: Shape,
    w: Shape,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int,
) -> None:
    """Raises ShapeError where a gradient of that shape is not that of a convolution of arrays of
    the shapes ``x`` and ``w``, and what ``rules.convolution`` raises where there is none."""
    rest = (stride, padding, input_dilation, kernel_dilation, groups)
    wanted = rules.convolution(x, w, *rest, op)
    if gradient != wanted:
        raise ShapeError(f"[{op}] gradient {gradient}: conv of x {x} with w {w} gives {wanted}")


def _extent(n: int, dilation: int) -> int:
    return (n - 1) * dilation + 1 if n else 0
