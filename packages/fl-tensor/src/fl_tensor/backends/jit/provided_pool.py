"""Pooling and its gradients by a provider, where there is one: in float32, and finite where largest
elements are looked for. Each function gives None where NumPy should do it (``provided.py``)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fl_tensor.backends.jit import blas, provided
from fl_tensor.backends.numpy import memory
from fl_tensor.backends.providers.problems import Padding, Pooling, PoolingGradient, Shape

Array: TypeAlias = np.ndarray[Any, Any]

#: Elements in windows up to which pooling is NumPy's.
LEAST = 1 << 14


class Windows(NamedTuple):
    """How windows lie over an array, and what is taken of each: as a ``Pooling`` says it."""

    window: Shape
    stride: Shape
    padding: Padding
    kind: str


def maximum(window: Shape, stride: Shape, padding: Padding) -> Windows:
    """Of each window its largest element."""
    return Windows(window, stride, padding, "max")


def mean(window: Shape, stride: Shape, padding: Padding, count_include_pad: bool = True) -> Windows:
    """Of each window its mean."""
    return Windows(window, stride, padding, "mean" if count_include_pad else "mean_inside")


def pool(x: Array, shape: Shape, windows: Windows, order: Shape | None = None) -> Array | None:
    """What ``windows`` take of ``x``, of that shape; ``order`` as for ``empty``. Maxima of finite
    elements alone: a provider may overlook a NaN, and take the lowest number for the maximum of
    nothing but -inf."""
    work = math.prod(shape) * math.prod(windows.window)
    provider = provided.float32_provider(work, LEAST, x)
    if provider is None or (windows.kind == "max" and not _is_finite(x)):
        return None
    x, out = provided.forwards(x), provided.empty(shape, x.dtype, order)
    problem = Pooling(provided.layout(x), provided.layout(out), *windows)
    return out if provided.compute(provider, problem, x, out) else None


def maximum_gradient(
    gradient: Array, x: Array, windows: Windows, order: Shape | None = None
) -> Array | None:
    """Each element to the first maximum of its window, which is looked for again."""
    work = gradient.size * math.prod(windows.window)
    provider = provided.float32_provider(work, LEAST, gradient, x)
    if provider is None or not _is_finite(x):
        return None
    pooled = provided.empty(gradient.shape, x.dtype, order)
    x = provided.laid(x, order)
    forward = Pooling(provided.layout(x), provided.layout(pooled), *windows, workspace=True)
    first = provider.find(forward)
    gradient, out = provided.laid(gradient, order), provided.empty(x.shape, x.dtype, order)
    backward = PoolingGradient(provided.layout(gradient), provided.layout(out), *windows)
    second = provider.find(backward)
    if first is None or second is None or first.workspace != second.workspace:
        return None
    workspace = memory.empty((first.workspace,), np.dtype(np.uint8))
    blas.yield_to_openmp()
    first(provided.address(x), provided.address(workspace), provided.address(pooled))
    second(provided.address(gradient), provided.address(workspace), provided.address(out))
    return out


def mean_gradient(
    gradient: Array, shape: Shape, windows: Windows, order: Shape | None = None
) -> Array | None:
    """Each element, shared among its window."""
    work = gradient.size * math.prod(windows.window)
    provider = provided.float32_provider(work, LEAST, gradient)
    if provider is None:
        return None
    gradient, out = provided.laid(gradient, order), provided.empty(shape, gradient.dtype, order)
    problem = PoolingGradient(provided.layout(gradient), provided.layout(out), *windows)
    return out if provided.compute(provider, problem, gradient, out) else None


def _is_finite(x: Array) -> bool:
    # The minimum of all is NaN if any is, and -inf if any is: one pass, no array of answers.
    return math.isfinite(np.minimum.reduce(x, None))
