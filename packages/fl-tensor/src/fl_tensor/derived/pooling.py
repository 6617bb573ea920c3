"""Pooling over windows, as a fold of strided slices: one slice per window position."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from fl_tensor.derived.precision import in_float32
from fl_tensor.dtypes import DType
from fl_tensor.errors import ShapeError
from fl_tensor.limits import iinfo
from fl_tensor.roles import F, Ops, R, Scalar, Shape

__all__ = ["avg_pool", "max_pool"]

Padding = tuple[tuple[int, int], ...]


def pool_output_sizes(
    op: str, shape: Shape, window: Shape, stride: Shape, padding: Padding
) -> Shape:
    """How many windows there are along each spatial axis. Raises ShapeError where none fits."""
    spatial = len(window)
    if len(shape) != spatial + 2 or len(stride) != spatial or len(padding) != spatial:
        raise ShapeError(
            f"[{op}] x {shape}, window {window}, stride {stride}, padding {padding}: expected "
            f"x (batch, channels, *spatial) with one window, stride and padding per spatial axis"
        )
    sizes = []
    for n, k, s, (low, high) in zip(shape[2:], window, stride, padding, strict=True):
        if k < 1 or s < 1 or not (0 <= low < k and 0 <= high < k) or n + low + high < k:
            raise ShapeError(
                f"[{op}] x {shape}: a window of {k} with stride {s} and padding {(low, high)} does "
                f"not fit an axis of {n}; window and stride are at least 1, padding is less"
            )
        sizes.append((n + low + high - k) // s + 1)
    return tuple(sizes)


def lowest(dtype: DType) -> Scalar:
    """What padding holds that never wins."""
    return -math.inf if dtype.is_floating else iinfo(dtype).min


def _windows(
    ops: Ops, x: Any, window: Shape, stride: Shape, padding: Padding, out: Shape, fill: Scalar
) -> Iterator[Any]:
    # Slices of the padded x: the j-th holds element j of every window.
    if any(low or high for low, high in padding):
        low = (0, 0, *(p[0] for p in padding))
        high = (0, 0, *(p[1] for p in padding))
        x = ops.pad(x, low, high, (0,) * len(low), fill)
    sizes, steps = (*x.shape[:2], *out), (1, 1, *stride)
    for offset in itertools.product(*(range(k) for k in window)):
        yield ops.slice(x, (0, 0, *offset), sizes, steps)


def max_pool(ops: Ops, x: R, window: Shape, stride: Shape, padding: Padding) -> Any:
    """The largest element of each window. ``x`` (batch, channels, *spatial); padding (low, high)
    per spatial axis never wins. NaN in a window gives NaN."""
    out = pool_output_sizes("max_pool", x.shape, window, stride, padding)
    slices = _windows(ops, x, window, stride, padding, out, lowest(x.dtype))
    y = next(slices)
    for other in slices:
        y = ops.maximum(y, other)
    return y


@in_float32
def avg_pool(
    ops: Ops,
    x: F,
    window: Shape,
    stride: Shape,
    padding: Padding,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window. ``x`` (batch, channels, *spatial); padding counts as zeros, or not
    at all with ``count_include_pad=False``."""
    out = pool_output_sizes("avg_pool", x.shape, window, stride, padding)

    def total(value: Any) -> Any:
        slices = _windows(ops, value, window, stride, padding, out, 0.0)
        y = next(slices)
        for other in slices:
            y = ops.add(y, other)
        return y

    if count_include_pad or not any(low or high for low, high in padding):
        return ops.divide(total(x), ops.constant(float(math.prod(window)), x))
    ones = ops.full((1, 1, *x.shape[2:]), 1.0, x.dtype, x.device)
    return ops.divide(total(x), total(ones))
