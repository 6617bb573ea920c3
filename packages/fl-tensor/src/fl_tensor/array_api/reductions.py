"""Reductions: statistics, sums, products, scans, ``all`` and ``any``.

Sums of unsigned integers are unsigned here, as the standard has it; ``ft.sum`` gives int64.
"""

from __future__ import annotations

import fl_tensor as ft
from fl_tensor import dtypes
from fl_tensor.arrays.array import Array
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
    return ft.sum(x, axis, keepdims, dtype or sum_dtype(x))


def prod(
    x: Array, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False
) -> Array:
    """Product; ``dtype`` as in ``sum``."""
    return ft.prod(x, axis, keepdims, dtype or sum_dtype(x))


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
    axis = _only_axis("cumulative_sum", x, axis)
    return ft.cumulative_sum(x, axis, include_initial, dtype or sum_dtype(x))


def cumulative_prod(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Array:
    """Running product; as ``cumulative_sum``, after a 1."""
    axis = _only_axis("cumulative_prod", x, axis)
    return ft.cumulative_prod(x, axis, include_initial, dtype or sum_dtype(x))


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


def sum_dtype(x: Array) -> DType:
    """The standard's dtype for sums and products of ``x``."""
    return dtypes.uint64 if x.dtype.kind == "u" else dtypes.sum_dtype(x.dtype)


def _only_axis(op: str, x: Array, axis: int | None) -> int:
    if axis is None and x.ndim > 1:
        raise ft.ArgumentError(f"[{op}] x {x.shape}: several axes, so say which")
    return axis or 0


def all(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether every element is non-zero."""
    return ft.all(x, axis, keepdims)


def any(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether any element is non-zero."""
    return ft.any(x, axis, keepdims)


def count_nonzero(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The number of non-zero elements."""
    return ft.count_nonzero(x, axis, keepdims)
