"""Dispatch of convolutions and their gradients to a kernel library.

Each operation has its own descriptor: ``conv`` is a ``Convolution``, ``conv_data_gradient`` (dgrad)
a ``ConvDataGrad``, and ``conv_weight_gradient`` (wgrad) a ``ConvWeightGrad``. A convolution of a
dilated input is a transposed convolution, which is a ``ConvDataGrad``. The input's dilation is then
its stride. The kernel is flipped, with channels and features exchanged.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fl_jit.eager import gemm_dispatch
from fl_jit.eager.prepacked import PrepackedArray
from fl_jit.kernels import registry
from fl_jit.kernels.descriptors import ConvDataGrad, Convolution, ConvWeightGrad, OpDescriptor
from fl_jit.kernels.library import KernelLibrary
from fl_tensor.dtypes import bfloat16
from fl_tensor.extend.numpy import FROM_NUMPY
from fl_tensor.extend.rules import check_conv_gradient

Array: TypeAlias = np.ndarray[Any, Any]
Shape: TypeAlias = tuple[int, ...]
Padding: TypeAlias = tuple[tuple[int, int], ...]


class Request(NamedTuple):
    """A convolution with the parameters of the contract, and its output array."""

    x: Array
    w: Any
    stride: Shape
    padding: Padding
    input_dilation: Shape
    kernel_dilation: Shape
    groups: int
    out: Array


#: A descriptor and its arrays in call order; None where the request is of another kind.
Posed: TypeAlias = tuple[OpDescriptor, Array, Array, Array] | None


def convolve(
    x: Array,
    w: Array | PrepackedArray,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int,
    out_shape: Shape,
    order: Shape | None = None,
    out: Array | None = None,
    follow: gemm_dispatch.EpilogueRequest | None = None,
) -> Array | None:
    """As ``conv.convolve``; None where NumPy is to compute it. The axes of the result have the
    memory order ``order``, slowest first. If ``out`` is given, the result is ``out``; ``follow`` is
    its epilogue."""
    library = _library(work(out_shape, w.shape), len(stride), x, w)
    if library is None:
        return None
    out = gemm_dispatch.empty(out_shape, x.dtype, order) if out is None else out
    request = _cropped(Request(x, w, stride, padding, input_dilation, kernel_dilation, groups, out))
    if request is None:
        return None
    if isinstance(w, PrepackedArray):
        posed = _prepacked(request)
    else:
        posed = _transposed(request) if max(input_dilation) > 1 else _forward(request)
    if posed is None or not gemm_dispatch.compute(library, *posed, follow=follow):
        return None
    return out


def data_gradient(
    gradient: Array,
    w: Array,
    shape: Shape,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int,
    order: Shape | None = None,
    out: Array | None = None,
    follow: gemm_dispatch.EpilogueRequest | None = None,
) -> Array | None:
    """Dispatch of ``conv_data_gradient``, as ``convolve``. None for a dilated input, whose gradient
    is a convolution with a stride. Raises ShapeError as the operation does."""
    library = _library(work(shape, w.shape), len(stride), gradient, w)
    if library is None or max(input_dilation) > 1:
        return None
    rest = (stride, padding, input_dilation, kernel_dilation, groups)
    check_conv_gradient("conv_data_gradient", gradient.shape, shape, w.shape, *rest)
    around = []
    for n, m, k, s, d, (low, _) in zip(
        shape[2:], gradient.shape[2:], w.shape[2:], stride, kernel_dilation, padding
    ):
        high = (m - 1) * s + (k - 1) * d + 1 - low - n  # of the padding that was read
        if low < 0 or high <= -s:
            return None
        around.append((low, high))
    out = gemm_dispatch.empty(shape, gradient.dtype, order) if out is None else out
    gradient, w = gemm_dispatch.forwards(gradient), gemm_dispatch.forwards(w)
    layouts = gemm_dispatch.layout(gradient), gemm_dispatch.layout(w), gemm_dispatch.layout(out)
    descriptor = ConvDataGrad(*layouts, stride, tuple(around), kernel_dilation, groups)
    return (
        out if gemm_dispatch.compute(library, descriptor, gradient, w, out, follow=follow) else None
    )


def weight_gradient(
    gradient: Array,
    x: Array,
    shape: Shape,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int,
    order: Shape | None = None,
) -> Array | None:
    """Dispatch of ``conv_weight_gradient``, as ``convolve``. None for a dilated input. Raises
    ShapeError as the operation does."""
    library = _library(work(gradient.shape, shape), len(stride), gradient, x)
    if library is None or max(input_dilation) > 1:
        return None
    rest = (stride, padding, input_dilation, kernel_dilation, groups)
    check_conv_gradient("conv_weight_gradient", gradient.shape, x.shape, shape, *rest)
    if _would_spread(gradient, x):
        return None
    around, cut = [], [slice(None)] * 2
    for n, m, k, s, d, (low, _) in zip(
        x.shape[2:], gradient.shape[2:], shape[2:], stride, kernel_dilation, padding
    ):
        # Input that no window reads is cropped at either end. Reads beyond the end are padding.
        high = (m - 1) * s + (k - 1) * d + 1 - low - n
        start, stop = max(-low, 0), n + min(high, 0)
        if start >= stop:
            return None
        around.append((max(low, 0), max(high, 0)))
        cut.append(slice(start, stop))
    out = gemm_dispatch.empty(shape, x.dtype, order)
    x, gradient = gemm_dispatch.forwards(x[tuple(cut)]), gemm_dispatch.forwards(gradient)
    layouts = gemm_dispatch.layout(x), gemm_dispatch.layout(gradient), gemm_dispatch.layout(out)
    descriptor = ConvWeightGrad(*layouts, stride, tuple(around), kernel_dilation, groups)
    return out if gemm_dispatch.compute(library, descriptor, x, gradient, out) else None


def work(images: Shape, weights: Shape) -> int:
    """Multiplications where every position of ``images`` takes all ``weights`` once. ``images`` is
    the shape of the result of ``conv`` or ``conv_data_gradient``, or of the gradient given to
    ``conv_weight_gradient``. Zeros between the elements of a dilated gradient are counted."""
    return math.prod(images[:1] + images[2:]) * math.prod(weights)


def _library(work: int, spatial: int, x: Array, y: Array | PrepackedArray) -> KernelLibrary | None:
    # The library for this amount of work over this many spatial axes.
    if x.size == 0 or not 1 <= spatial <= 3 or x.dtype != y.dtype:
        return None
    return registry.active_library() if gemm_dispatch.is_worth(work, FROM_NUMPY[x.dtype]) else None


def _would_spread(gradient: Array, x: Array) -> bool:
    # Whether NaN might spread to elements that should have none: see ``ConvWeightGrad``.
    if FROM_NUMPY[x.dtype] is not bfloat16 or gradient.shape[-1] % 2 == 0:
        return False
    return not _is_finite(x)


def _is_finite(x: Array) -> bool:
    # For bfloat16: the exponent follows the sign, and is all ones in non-finite numbers.
    return int(np.max(x.view(np.uint16) & 0x7FFF)) < 0x7F80


def _cropped(request: Request) -> Request | None:
    # Negative padding crops the input, which a view does. On a dilated axis it can remove less than
    # one element, so such axes keep theirs. None where only padding would remain.
    if min(map(min, request.padding)) >= 0:
        return request
    cut, rest = [slice(None)] * 2, []
    for n, (low, high), d in zip(request.x.shape[2:], request.padding, request.input_dilation):
        if d > 1:
            cut.append(slice(None))
            rest.append((low, high))
        else:
            start, stop = max(-low, 0), n - max(-high, 0)
            if start >= stop:
                return None
            cut.append(slice(start, stop))
            rest.append((max(low, 0), max(high, 0)))
    return request._replace(x=request.x[tuple(cut)], padding=tuple(rest))


def _forward(request: Request) -> Posed:
    x, w, stride, padding, _, dilation, groups, out = request
    x, w = gemm_dispatch.forwards(x), gemm_dispatch.forwards(w)
    layouts = gemm_dispatch.layout(x), gemm_dispatch.layout(w), gemm_dispatch.layout(out)
    return Convolution(*layouts, stride, padding, dilation, groups), x, w, out


def _prepacked(request: Request) -> Posed:
    # Weights prepacked for a convolution, and for no other operation.
    x, w, stride, padding, _, dilation, groups, out = request
    x = gemm_dispatch.forwards(x)
    descriptor = Convolution(
        gemm_dispatch.layout(x),
        w.layout,
        gemm_dispatch.layout(out),
        stride,
        padding,
        dilation,
        groups,
    )
    return descriptor, x, w.memory, out


def _transposed(request: Request) -> Posed:
    x, w, stride, padding, input_dilation, dilation, groups, out = request
    spatial = len(stride)
    if max(stride) > 1:
        return None
    around = []
    for k, d, (low, high), step in zip(w.shape[2:], dilation, padding, input_dilation):
        reach = (k - 1) * d
        around.append((reach - low, reach - high))
        if reach < low or high >= reach + step:
            return None
    kernel = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    kernel = kernel[(Ellipsis, *([slice(None, None, -1)] * spatial))]
    kernel = gemm_dispatch.forwards(kernel[0] if groups == 1 else kernel)
    x = gemm_dispatch.forwards(x)
    layouts = gemm_dispatch.layout(x), gemm_dispatch.layout(kernel), gemm_dispatch.layout(out)
    descriptor = ConvDataGrad(*layouts, input_dilation, tuple(around), dilation, groups)
    return descriptor, x, kernel, out
