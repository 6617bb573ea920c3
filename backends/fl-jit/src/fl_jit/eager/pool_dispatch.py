"""Pooling and its gradients by a provider, where there is one: in float32, and finite where largest
elements are looked for. Each function gives None where NumPy should do it (``provided.py``)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fl_jit.eager import blas, gemm_dispatch
from fl_jit.kernels.descriptors import Padding, Pooling, PoolingGradient, Shape
from fl_tensor.backends.numpy import memory

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
    library = gemm_dispatch.float32_provider(work, LEAST, x)
    if library is None or (windows.kind == "max" and not _is_finite(x)):
        return None
    x, out = gemm_dispatch.forwards(x), gemm_dispatch.empty(shape, x.dtype, order)
    descriptor = Pooling(gemm_dispatch.layout(x), gemm_dispatch.layout(out), *windows)
    return out if gemm_dispatch.compute(library, descriptor, x, out) else None


def maximum_gradient(
    gradient: Array, x: Array, windows: Windows, order: Shape | None = None
) -> Array | None:
    """Each element to the first maximum of its window, which is looked for again."""
    work = gradient.size * math.prod(windows.window)
    library = gemm_dispatch.float32_provider(work, LEAST, gradient, x)
    if library is None or not _is_finite(x):
        return None
    pooled = gemm_dispatch.empty(gradient.shape, x.dtype, order)
    x = gemm_dispatch.laid(x, order)
    forward = Pooling(
        gemm_dispatch.layout(x), gemm_dispatch.layout(pooled), *windows, workspace=True
    )
    first = library.find(forward)
    gradient, out = (
        gemm_dispatch.laid(gradient, order),
        gemm_dispatch.empty(x.shape, x.dtype, order),
    )
    backward = PoolingGradient(gemm_dispatch.layout(gradient), gemm_dispatch.layout(out), *windows)
    second = library.find(backward)
    if first is None or second is None or first.workspace != second.workspace:
        return None
    workspace = memory.empty((first.workspace,), np.dtype(np.uint8))
    blas.yield_to_openmp()
    first(gemm_dispatch.address(x), gemm_dispatch.address(workspace), gemm_dispatch.address(pooled))
    second(
        gemm_dispatch.address(gradient),
        gemm_dispatch.address(workspace),
        gemm_dispatch.address(out),
    )
    return out


def mean_gradient(
    gradient: Array, shape: Shape, windows: Windows, order: Shape | None = None
) -> Array | None:
    """Each element, shared among its window."""
    work = gradient.size * math.prod(windows.window)
    library = gemm_dispatch.float32_provider(work, LEAST, gradient)
    if library is None:
        return None
    gradient, out = (
        gemm_dispatch.laid(gradient, order),
        gemm_dispatch.empty(shape, gradient.dtype, order),
    )
    descriptor = PoolingGradient(
        gemm_dispatch.layout(gradient), gemm_dispatch.layout(out), *windows
    )
    return out if gemm_dispatch.compute(library, descriptor, gradient, out) else None


def _is_finite(x: Array) -> bool:
    # The minimum of all is NaN if any is, and -inf if any is: one pass, no array of answers.
    return math.isfinite(np.minimum.reduce(x, None))
