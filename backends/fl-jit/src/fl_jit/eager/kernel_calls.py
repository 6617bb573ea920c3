"""Kernel calls: the descriptor of a contraction, and the operands that its kernel reads.

``kernel_call`` is arithmetic on layouts. The eager path calls it with the layouts of arrays, and a
plan with those of a graph. A kernel may read a part or a view of an operand: one matrix for a
batch, an image without its cropped edge, or the flipped weights of a transposed convolution.

Each operation has its own descriptor: ``matmul`` is a ``Matmul``, ``conv`` a ``Convolution``,
``conv_data_gradient`` (dgrad) a ``ConvDataGrad``, and ``conv_weight_gradient`` (wgrad) a
``ConvWeightGrad``. A convolution of a dilated input is a transposed convolution, which is a
``ConvDataGrad``. The input's dilation is then its stride. The kernel is flipped, with channels and
features exchanged.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fl_jit.kernels.descriptors import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Matmul,
    OpDescriptor,
    Padding,
    Shape,
)
from fl_jit.kernels.layout import Layout, Packed, Placement, row_major
from fl_jit.kernels.library import CAPACITY


class View(NamedTuple):
    """What a kernel reads of an operand.

    operand   0 or 1
    layout    as the kernel reads it
    offset    elements from the first one of the operand to the first one of the view
    copies    whether the kernel reads a copy of the view in C order
    """

    operand: int
    layout: Placement
    offset: int = 0
    copies: bool = False

    @property
    def placement(self) -> Placement:
        """The layout of the memory that the kernel reads."""
        return row_major(self.layout.dtype, self.layout.shape) if self.copies else self.layout


class ConvParameters(NamedTuple):
    """The parameters of ``conv``, as in the contract. Its gradients have the same."""

    stride: Shape
    padding: Padding
    input_dilation: Shape
    kernel_dilation: Shape
    groups: int


class KernelCall(NamedTuple):
    """A descriptor, and the views in its order; the result comes last in the call."""

    descriptor: OpDescriptor
    views: tuple[View, View]


@functools.lru_cache(maxsize=CAPACITY)
def kernel_call(
    op: str, x: Layout, y: Placement, out: Layout, parameters: ConvParameters | None = None
) -> KernelCall | None:
    """The kernel call of ``op`` on operands and a result with these layouts; None if it has none.

    ``parameters`` are those of a convolution or its gradient. A packed ``y`` has the form that a
    kernel library prepacked for the same operation. Calls are cached, as kernels are.
    """
    return _CALLS[op](x, y, out, parameters)


# ---- GEMM ----------------------------------------------------------------------------------------


def _matmul(x: Layout, y: Placement, out: Layout, _: None) -> KernelCall | None:
    if len(x.shape) > 2 and len(y.shape) == 2 and _is_row_major(x) and _is_row_major(out):
        x, out = _rows(x), _rows(out)  # one GEMM with more rows
    if isinstance(y, Packed):
        if len(x.shape) > 2:
            return None
        left, right = _matrices(0, x), View(1, y)
    else:
        rank = max(len(x.shape), len(y.shape))
        left, right = _matrices(0, _aligned(x, rank)), _matrices(1, _aligned(y, rank))
    return KernelCall(Matmul(left.placement, right.placement, out), (left, right))


def _rows(a: Layout) -> Layout:
    return row_major(a.dtype, (math.prod(a.shape[:-1]), a.shape[-1]))


def _aligned(a: Layout, rank: int) -> Layout:
    missing = rank - len(a.shape)
    if not missing:
        return a
    pitch = a.shape[0] * _strides(a)[0]
    return Layout(a.dtype, (1,) * missing + a.shape, (pitch,) * missing + _strides(a))


def _matrices(operand: int, a: Layout) -> View:
    # Repeated batches become one that broadcasts. Rows or columns have to be contiguous.
    if _is_row_major(a):
        return View(operand, a)
    strides = _strides(a)
    batch = [1 if step == 0 else n for n, step in zip(a.shape[:-2], strides)]
    (m, n), (down, along) = a.shape[-2:], strides[-2:]
    a = a._replace(shape=(*batch, m, n))
    rows = (along == 1 or n == 1) and (down >= n or m == 1)
    columns = (down == 1 or m == 1) and (along >= m or n == 1)
    return View(operand, a, copies=not (rows or columns) or not _is_ascending(a))


# ---- convolutions --------------------------------------------------------------------------------


def _conv(x: Layout, w: Placement, out: Layout, parameters: ConvParameters) -> KernelCall | None:
    stride, padding, input_dilation, dilation, groups = parameters
    cropped = _cropped(x, padding, input_dilation)
    if cropped is None:
        return None
    images, padding = cropped
    if isinstance(w, Packed):
        weights = View(1, w)
    elif max(input_dilation) > 1:
        return _transposed(images, w, out, parameters._replace(padding=padding))
    else:
        weights = _ascending(1, w)
    layouts = images.placement, weights.placement, out
    return KernelCall(Convolution(*layouts, stride, padding, dilation, groups), (images, weights))


def _cropped(x: Layout, padding: Padding, input_dilation: Shape) -> tuple[View, Padding] | None:
    # Negative padding crops the input. On a dilated axis it can remove less than one element, so
    # such axes keep theirs. None where only padding would remain.
    starts, sizes, rest = [], [], []
    for n, (low, high), d in zip(x.shape[2:], padding, input_dilation):
        crops = d == 1
        starts.append(max(-low, 0) if crops else 0)
        sizes.append(n - starts[-1] - (max(-high, 0) if crops else 0))
        rest.append((max(low, 0), max(high, 0)) if crops else (low, high))
    part = _part(0, x, starts, sizes)
    return None if part is None else (part, tuple(rest))


def _transposed(
    images: View, w: Layout, out: Layout, parameters: ConvParameters
) -> KernelCall | None:
    stride, padding, input_dilation, dilation, groups = parameters
    if max(stride) > 1:
        return None
    around = []
    for k, d, (low, high), step in zip(w.shape[2:], dilation, padding, input_dilation):
        reach = (k - 1) * d
        around.append((reach - low, reach - high))
        if reach < low or high >= reach + step:
            return None
    features, channels, *sizes = w.shape
    feature, channel, *steps = _strides(w)
    per_group = features // groups
    shape, strides = (channels, per_group, *sizes), (channel, feature, *[-s for s in steps])
    if groups > 1:
        shape, strides = (groups, *shape), (per_group * feature, *strides)
    last = sum((k - 1) * s for k, s in zip(sizes, steps))
    kernel = _ascending(1, Layout(w.dtype, shape, strides), last)
    layouts = images.placement, kernel.placement, out
    descriptor = ConvDataGrad(*layouts, input_dilation, tuple(around), dilation, groups)
    return KernelCall(descriptor, (images, kernel))


def _conv_data_gradient(
    gradient: Layout, w: Layout, out: Layout, parameters: ConvParameters
) -> KernelCall | None:
    stride, padding, input_dilation, dilation, groups = parameters
    if max(input_dilation) > 1:  # the gradient is then a convolution with a stride
        return None
    around = []
    for low, high, s in _read_padding(
        out.shape, gradient.shape, w.shape, stride, padding, dilation
    ):
        if low < 0 or high <= -s:
            return None
        around.append((low, high))
    views = _ascending(0, gradient), _ascending(1, w)
    layouts = views[0].placement, views[1].placement, out
    return KernelCall(ConvDataGrad(*layouts, stride, tuple(around), dilation, groups), views)


def _conv_weight_gradient(
    gradient: Layout, x: Layout, out: Layout, parameters: ConvParameters
) -> KernelCall | None:
    stride, padding, input_dilation, dilation, groups = parameters
    if max(input_dilation) > 1:
        return None
    around, starts, sizes = [], [], []
    ends = _read_padding(x.shape, gradient.shape, out.shape, stride, padding, dilation)
    for n, (low, high, _) in zip(x.shape[2:], ends):
        # Input that no window reads is cropped at either end. Reads beyond the end are padding.
        around.append((max(low, 0), max(high, 0)))
        starts.append(max(-low, 0))
        sizes.append(n + min(high, 0) - starts[-1])
    images, gradients = _part(1, x, starts, sizes), _ascending(0, gradient)
    if images is None:
        return None
    layouts = images.placement, gradients.placement, out
    descriptor = ConvWeightGrad(*layouts, stride, tuple(around), dilation, groups)
    return KernelCall(descriptor, (images, gradients))


def _read_padding(
    image: Shape, result: Shape, w: Shape, stride: Shape, padding: Padding, dilation: Shape
) -> list[tuple[int, int, int]]:
    # For each spatial axis of a forward convolution: the padding that its windows read, at the
    # begin and at the end, and the stride.
    axes = zip(image[2:], result[2:], w[2:], stride, dilation, padding)
    return [(low, (m - 1) * s + (k - 1) * d + 1 - low - n, s) for n, m, k, s, d, (low, _) in axes]


# ---- layouts -------------------------------------------------------------------------------------


def _part(operand: int, x: Layout, starts: Sequence[int], sizes: Sequence[int]) -> View | None:
    # A range along each spatial axis; None if one is empty.
    if min(sizes) <= 0:
        return None
    offset = sum(start * s for start, s in zip(starts, _strides(x)[2:]))
    return _ascending(operand, x._replace(shape=(*x.shape[:2], *sizes)), offset)


def _ascending(operand: int, a: Layout, offset: int = 0) -> View:
    # Kernels read no negative strides and no repeated elements.
    return View(operand, a, offset, copies=not _is_ascending(a))


def _is_ascending(a: Layout) -> bool:
    strides = _strides(a)
    return min(strides) > 0 or all(s > 0 or n == 1 for s, n in zip(strides, a.shape))


def _is_row_major(a: Layout) -> bool:
    step = 1
    for n, s in zip(reversed(a.shape), reversed(_strides(a))):
        if n != 1 and s != step:
            return False
        step *= n
    return True


def _strides(a: Layout) -> Shape:
    assert a.strides is not None
    return a.strides


_CALLS: dict[str, Callable[..., KernelCall | None]] = {
    "matmul": _matmul,
    "conv": _conv,
    "conv_data_gradient": _conv_data_gradient,
    "conv_weight_gradient": _conv_weight_gradient,
}
