"""Pooling and its gradients by a provider, where there is one: in float32, and finite where largest
elements are looked for. Each function gives None where NumPy should do it (``provided.py``)."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from fl_tensor.backends.numpy import blas, memory, provided
from fl_tensor.backends.providers.problems import Pooling, PoolingGradient

Array: TypeAlias = np.ndarray[Any, Any]

#: Elements in windows up to which pooling is NumPy's.
LEAST = 1 << 14


def max_pool(
    x: Array,
    shape: tuple[int, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    order: tuple[int, ...] | None = None,
) -> Array | None:
    """The largest element of each window; ``order`` as for ``empty``. Finite elements alone: a
    provider may overlook a NaN, and take the lowest number for the maximum of nothing but -inf."""
    return _pool(x, shape, window, stride, padding, "max", order)


def avg_pool(
    x: Array,
    shape: tuple[int, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    count_include_pad: bool,
    order: tuple[int, ...] | None = None,
) -> Array | None:
    """The mean of each window."""
    kind = "mean" if count_include_pad else "mean_inside"
    return _pool(x, shape, window, stride, padding, kind, order)


def _pool(
    x: Array,
    shape: tuple[int, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    kind: str,
    order: tuple[int, ...] | None,
) -> Array | None:
    work = math.prod(shape) * math.prod(window)
    provider = provided.float32_provider(work, LEAST, x)
    if provider is None or (kind == "max" and not _is_finite(x)):
        return None
    x, out = provided.forwards(x), provided.empty(shape, x.dtype, order)
    problem = Pooling(provided.layout(x), provided.layout(out), window, stride, padding, kind)
    return out if provided.compute(provider, problem, x, out) else None


def max_pool_gradient(
    gradient: Array,
    x: Array,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    order: tuple[int, ...] | None = None,
) -> Array | None:
    """Each element to the first maximum of its window, which is looked for again."""
    provider = provided.float32_provider(gradient.size * math.prod(window), LEAST, gradient, x)
    if provider is None or not _is_finite(x):
        return None
    rest = window, stride, padding, "max"
    pooled = provided.empty(gradient.shape, x.dtype, order)
    x = provided.laid(x, order)
    forward = Pooling(provided.layout(x), provided.layout(pooled), *rest, workspace=True)
    first = provider.find(forward)
    gradient, out = provided.laid(gradient, order), provided.empty(x.shape, x.dtype, order)
    backward = PoolingGradient(provided.layout(gradient), provided.layout(out), *rest)
    second = provider.find(backward)
    if first is None or second is None or first.workspace != second.workspace:
        return None
    workspace = memory.empty((first.workspace,), np.dtype(np.uint8))
    blas.yield_to_openmp()
    first(provided.address(x), provided.address(workspace), provided.address(pooled))
    second(provided.address(gradient), provided.address(workspace), provided.address(out))
    return out


def avg_pool_gradient(
    gradient: Array,
    shape: tuple[int, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    count_include_pad: bool,
    order: tuple[int, ...] | None = None,
) -> Array | None:
    """Each element, shared among its window."""
    provider = provided.float32_provider(gradient.size * math.prod(window), LEAST, gradient)
    if provider is None:
        return None
    kind = "mean" if count_include_pad else "mean_inside"
    gradient, out = provided.laid(gradient, order), provided.empty(shape, gradient.dtype, order)
    problem = PoolingGradient(
        provided.layout(gradient), provided.layout(out), window, stride, padding, kind
    )
    return out if provided.compute(provider, problem, gradient, out) else None


def _is_finite(x: Array) -> bool:
    # The minimum of all is NaN if any is, and -inf if any is: one pass, no array of answers.
    return math.isfinite(np.minimum.reduce(x, None))
