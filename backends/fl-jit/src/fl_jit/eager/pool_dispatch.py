"""Dispatch of pooling and its gradients to a kernel library.

Only float32 is dispatched, and for max pooling only finite input. Each function returns None where
NumPy is to compute, as in ``gemm_dispatch.py``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fl_jit.eager import blas, gemm_dispatch
from fl_jit.kernels.descriptors import Padding, Pooling, PoolingGradient, Shape
from fl_tensor.extend.numpy import memory

Array: TypeAlias = np.ndarray[Any, Any]

#: Window elements up to which pooling runs in NumPy.
LEAST = 1 << 14


class Windows(NamedTuple):
    """The windows over an array and the pooling kind, as in a ``Pooling``."""

    window: Shape
    stride: Shape
    padding: Padding
    kind: str


def maximum(window: Shape, stride: Shape, padding: Padding) -> Windows:
    """Max pooling."""
    return Windows(window, stride, padding, "max")


def mean(window: Shape, stride: Shape, padding: Padding, count_include_pad: bool = True) -> Windows:
    """Average pooling."""
    return Windows(window, stride, padding, "mean" if count_include_pad else "mean_inside")


def pool(x: Array, shape: Shape, windows: Windows, order: Shape | None = None) -> Array | None:
    """Pooling of ``x`` with ``windows``, of that result shape; ``order`` as for ``empty``. Max
    pooling takes finite elements only: a library may ignore a NaN, and may return the lowest number
    as the maximum of a window of -inf."""
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
    """Adds each gradient element at the first maximum of its window, which is recomputed."""
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
    """Distributes each gradient element over its window."""
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
    # The minimum of all is NaN if any is, and -inf if any is: one pass without a result array.
    return math.isfinite(np.minimum.reduce(x, None))
