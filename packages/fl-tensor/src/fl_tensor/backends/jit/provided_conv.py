"""Convolutions by a provider, each as what it is best computed as.

The contract has one convolution, and gradients arrive as convolutions, too. A provider has three
kernels, and any of the contract's is one of them:

* zeros between the input's elements make it the gradient of a convolution's data, whose stride
  takes the place of the zeros, and whose kernel is this one flipped, channels and features
  exchanged;
* a kernel larger than the result (which is how gradients of weights arrive) makes it the gradient
  of a convolution's weights: batch and channels exchanged, dilation the stride, stride the
  dilation;
* otherwise it is a convolution.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fl_tensor.backends.jit import provided
from fl_tensor.backends.jit.kept import Kept
from fl_tensor.backends.numpy.adapter import FROM_NUMPY
from fl_tensor.backends.providers import choose
from fl_tensor.backends.providers.problems import (
    Convolution,
    ConvolutionData,
    ConvolutionWeights,
    Problem,
)
from fl_tensor.dtypes import bfloat16

Array: TypeAlias = np.ndarray[Any, Any]
Shape: TypeAlias = tuple[int, ...]
Padding: TypeAlias = tuple[tuple[int, int], ...]


class Request(NamedTuple):
    """A convolution in the words of the contract, and where its result goes."""

    x: Array
    w: Any
    stride: Shape
    padding: Padding
    input_dilation: Shape
    kernel_dilation: Shape
    groups: int
    out: Array


#: A problem and its arrays in the order of the call; None where the request is not of that kind.
Posed: TypeAlias = tuple[Problem, Array, Array, Array] | None


def convolve(
    x: Array,
    w: Array | Kept,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int,
    out_shape: Shape,
    order: Shape | None = None,
    out: Array | None = None,
    follow: provided.Following | None = None,
) -> Array | None:
    """As ``conv.convolve``; None where NumPy should do it. The axes of the result lie in memory in
    ``order``, slowest first; or it is ``out``, and what is to follow."""
    work = math.prod(out_shape) * math.prod(w.shape[1:])
    if x.size == 0 or not 1 <= len(stride) <= 3:
        return None
    worth = provided.is_worth(work, FROM_NUMPY[x.dtype])
    provider = choose.current() if worth and x.dtype == w.dtype else None
    if provider is None:
        return None
    out = provided.empty(out_shape, x.dtype, order) if out is None else out
    request = _cropped(Request(x, w, stride, padding, input_dilation, kernel_dilation, groups, out))
    if request is None or _would_spread(request):
        return None
    poses = (_kept,) if isinstance(w, Kept) else (_data, _weights, _forward)
    for posed in filter(None, (pose(request) for pose in poses)):
        if provided.compute(provider, *posed, follow=follow):
            return out
    return None


def is_weights(out_shape: Shape, w_shape: Shape) -> bool:
    """Whether a convolution's kernel is larger than its result, as in gradients of weights."""
    return math.prod(out_shape[2:]) < math.prod(w_shape[2:])


def _would_spread(request: Request) -> bool:
    # Whether a gradient of weights might have NaN where it should not: see ``ConvolutionWeights``.
    x, w, *_, out = request
    if FROM_NUMPY[x.dtype] is not bfloat16 or w.shape[-1] % 2 == 0:
        return False
    return is_weights(out.shape, w.shape) and not _is_finite(x)


def _is_finite(x: Array) -> bool:
    # Of bfloat16, whose sign is followed by the exponent: all ones in what is not finite.
    return int(np.max(x.view(np.uint16) & 0x7FFF)) < 0x7F80


def _cropped(request: Request) -> Request | None:
    # Negative padding takes elements away, which a view does. Between elements that lie apart it
    # can take less than one, so those are left. None where nothing but padding would remain.
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
    x, w, stride, padding, input_dilation, dilation, groups, out = request
    if any(d > 1 for d in input_dilation):
        return None
    x, w = provided.forwards(x), provided.forwards(w)
    layouts = provided.layout(x), provided.layout(w), provided.layout(out)
    return Convolution(*layouts, stride, padding, dilation, groups), x, w, out


def _kept(request: Request) -> Posed:
    # Weights that were packed for a convolution, and for nothing else.
    x, w, stride, padding, _, dilation, groups, out = request
    x = provided.forwards(x)
    problem = Convolution(
        provided.layout(x), w.layout, provided.layout(out), stride, padding, dilation, groups
    )
    return problem, x, w.memory, out


def _data(request: Request) -> Posed:
    x, w, stride, padding, input_dilation, dilation, groups, out = request
    spatial = len(stride)
    flipped = all(step < 0 for step in w.strides[2:])  # a flip back costs nothing
    if any(s > 1 for s in stride) or not (flipped or any(d > 1 for d in input_dilation)):
        return None
    around = []
    for k, d, (low, high), step in zip(w.shape[2:], dilation, padding, input_dilation):
        reach = (k - 1) * d
        around.append((reach - low, reach - high))
        if reach < low or high >= reach + step:
            return None
    kernel = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    kernel = kernel[(Ellipsis, *([slice(None, None, -1)] * spatial))]
    kernel = provided.forwards(kernel[0] if groups == 1 else kernel)
    x = provided.forwards(x)
    layouts = provided.layout(x), provided.layout(kernel), provided.layout(out)
    problem = ConvolutionData(*layouts, input_dilation, tuple(around), dilation, groups)
    return problem, x, kernel, out


def _weights(request: Request) -> Posed:
    x, w, stride, padding, input_dilation, dilation, groups, out = request
    if any(d > 1 for d in input_dilation):
        return None
    if not is_weights(out.shape, w.shape):
        return None
    around, cut = [], [slice(None)] * 2
    for n, k, o, s, d, (low, high) in zip(
        x.shape[2:], w.shape[2:], out.shape[2:], stride, dilation, padding
    ):
        # What the last place of the kernel does not reach is padding, or elements to be left out.
        high -= (n + low + high - (k - 1) * d - 1) - (o - 1) * s
        stop = n + min(high, 0)
        if stop <= 0:
            return None
        around.append((low, max(high, 0)))
        cut.append(slice(0, stop))
    x = x[tuple(cut)]
    rest = tuple(range(3, 1 + x.ndim))
    batch, channels, *size = x.shape
    image = x.reshape(batch, groups, channels // groups, *size).transpose(2, 1, 0, *rest)
    image = provided.forwards(image.reshape(channels // groups, groups * batch, *size))
    gradient = provided.forwards(w.swapaxes(0, 1))
    features, places = out.shape[1], out.shape[2:]
    kernel = out.reshape(batch, groups, features // groups, *places).transpose(1, 2, 0, *rest)
    kernel = kernel[0] if groups == 1 else kernel
    layouts = provided.layout(image), provided.layout(gradient), provided.layout(kernel)
    problem = ConvolutionWeights(*layouts, dilation, tuple(around), stride, groups)
    return problem, image, gradient, kernel
