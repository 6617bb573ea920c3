"""Over axes: statistics, sums and products, running ones, truth.

Sums of unsigned integers are unsigned here, as the standard has it; ``ft.sum`` gives int64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fl_tensor as ft
from fl_tensor import dtypes
from fl_tensor.array import Array
from fl_tensor.dtypes import DType

Axes = int | tuple[int, ...] | None


def max(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Largest element; NaN if there is one."""
    return ft.max(x, axis, keepdims)


def min(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Smallest element; NaN if there is one."""
    return ft.min(x, axis, keepdims)


def mean(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Arithmetic mean; NaN over nothing."""
    return ft.mean(x, axis, keepdims)


def var(
    x: Array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """Variance: the sum of squared distances from the mean divided by ``n - correction``."""
    return ft.var(x, axis, keepdims, correction)


def std(
    x: Array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """The square root of ``var``."""
    return ft.std(x, axis, keepdims, correction)


def sum(
    x: Array, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False
) -> Array:
    """Sum, in ``dtype``: by default that of ``x``, but integers of 64 bits."""
    return _accumulate(ft.sum, x, dtype, axis, keepdims)


def prod(
    x: Array, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False
) -> Array:
    """Product; ``dtype`` as in ``sum``."""
    return _accumulate(ft.prod, x, dtype, axis, keepdims)


def cumulative_sum(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Array:
    """Running sum along an axis (needed unless ``x`` has one), after a 0 with
    ``include_initial``; ``dtype`` as in ``sum``."""
    return _running(ft.cumulative_sum, x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Array:
    """Running product; as ``cumulative_sum``, after a 1."""
    return _running(ft.cumulative_prod, x, axis, dtype, 1 if include_initial else None)


def diff(
    x: Array,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Array | None = None,
    append: Array | None = None,
) -> Array:
    """Differences of neighbours along an axis, ``n`` times; the ends are extended before."""
    return ft.diff(x, n, axis, prepend, append)


def _accumulate(
    function: Callable[..., Any], x: Array, dtype: DType | None, *arguments: Any
) -> Array:
    # Integer functions compute in int64, or in uint64 if given that; the rest is casting.
    dtype = sum_dtype(x) if dtype is None else dtype
    return function(x.astype(dtype), *arguments).astype(dtype)


def sum_dtype(x: Array) -> DType:
    """The standard's dtype for sums and products of ``x``."""
    return dtypes.uint64 if x.dtype.kind == "u" else dtypes.sum_dtype(x.dtype)


def _running(
    function: Callable[..., Any],
    x: Array,
    axis: int | None,
    dtype: DType | None,
    first: int | None,
) -> Array:
    if axis is None and x.ndim > 1:
        raise ft.ArgumentError(f"[{function.__name__}] x {x.shape}: several axes, so say which")
    made = _accumulate(function, x, dtype, axis or 0)
    if first is None:
        return made
    start = ft.full_like(ft.sum(made, axis or 0, keepdims=True), first, made.dtype)
    return ft.concatenate([start, made], axis or 0)


def all(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether every element is non-zero."""
    return ft.all(x, axis, keepdims)


def any(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether any element is non-zero."""
    return ft.any(x, axis, keepdims)


def count_nonzero(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The number of non-zero elements."""
    return ft.count_nonzero(x, axis, keepdims)
