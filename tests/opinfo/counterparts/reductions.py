"""Reductions, scans, sorting and searching."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from counterparts.calls import Function, dtype_of, renamed, with_axes


def _cast_first(function: Function) -> Function:
    """A function of an array, computed in another dtype if ``dtype`` is given."""

    def call(x: Any, *args: Any, dtype: Any = None, **options: Any) -> Any:
        x = x if dtype is None else x.astype(dtype_of(dtype))
        return function(x, *args, **renamed(options))

    return call


def _variance(function: Function, with_mean: bool = False) -> Function:
    """``std`` and ``var``: corrected by one unless told otherwise."""

    def call(x: Any, *args: Any, **options: Any) -> Any:
        options = renamed(options)
        axis, keepdims = options.pop("axis", None), options.pop("keepdims", False)
        correction = options.pop("correction", 1)
        unbiased = options.pop("unbiased", None)
        for value in args:
            if isinstance(value, bool):
                unbiased = value
            else:
                axis = value
        if unbiased is not None:
            correction = int(unbiased)
        axis = None if axis == () or axis == [] else axis
        correction = 1 if correction is None else correction
        result = function(x, axis=axis, keepdims=keepdims, correction=correction)
        return (result, ft.mean(x, axis=axis, keepdims=keepdims)) if with_mean else result

    return call


def _extreme(name: str) -> Function:
    """``max`` and ``min`` along an axis give values and indices."""

    def call(x: Any, dim: int, keepdim: bool = False) -> Any:
        return getattr(ft, f"{name}_with_index")(x, axis=dim, keepdims=keepdim)

    return call


def _amax(function: Function) -> Function:
    def call(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        axis = None if dim == () or dim == [] else dim
        return function(x, axis=axis, keepdims=keepdim)

    return call


def _index(function: Function) -> Function:
    def call(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        return function(x, axis=dim, keepdims=keepdim)

    return call


def _scan_with_index(function: Function) -> Function:
    def call(x: Any, dim: int) -> Any:
        return (x, ft.asarray(0)) if x.ndim == 0 else tuple(function(x, axis=dim))

    return call


def _sort(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    order = ft.argsort(x, axis=dim, descending=descending)
    return ft.take_along_axis(x, order, axis=dim), order


def _kth(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    order = ft.argsort(x, axis=dim)
    places = ft.take(order, ft.asarray([k - 1]), axis=dim)
    found = ft.take_along_axis(x, places, axis=dim)
    if keepdim:
        return found, places
    return ft.squeeze(found, axis=dim), ft.squeeze(places, axis=dim)


def _topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    return ft.topk(x, k, axis=dim, largest=largest)


def _quantile(function: Function) -> Function:
    def call(
        x: Any, q: Any, dim: Any = None, keepdim: bool = False, interpolation: str = "linear"
    ) -> Any:
        return function(x, q, axis=dim, keepdims=keepdim, method=interpolation)

    return call


def _searchsorted(
    sequence: Any,
    values: Any,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    side = side or ("right" if right else "left")
    found = ft.searchsorted(sequence, values, side=side, sorter=sorter)
    return found.astype("int32") if out_int32 else found


def _bucketize(values: Any, boundaries: Any, out_int32: bool = False, right: bool = False) -> Any:
    found = ft.searchsorted(boundaries, values, side="right" if right else "left")
    return found.astype("int32") if out_int32 else found


def _histogram(
    x: Any, bins: Any, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    return ft.histogram(x, bins, range=range, weights=weight, density=density)


def _histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    limits = None if min == max == 0 else (min, max)
    return ft.histogram(x, bins, range=limits)[0]


def _unique(
    x: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    return ft.unique(x, return_inverse=return_inverse, return_counts=return_counts, axis=dim)


def _diff(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    return ft.diff(x, n=n, axis=dim, prepend=prepend, append=append)


def _trapezoid(y: Any, x: Any = None, dim: int = -1, dx: float | None = None) -> Any:
    return ft.sum(_trapezoids(y, x, dim, dx), axis=dim)


def _trapezoids(y: Any, x: Any, dim: int, dx: float | None) -> Any:
    step = 1.0 if dx is None else dx
    if x is not None and hasattr(x, "shape"):
        width = ft.diff(x, axis=-1 if x.ndim == 1 else dim)
        if x.ndim == 1 and y.ndim > 1:
            width = width.reshape([-1 if i == dim % y.ndim else 1 for i in range(y.ndim)])
        step = width
    n = y.shape[dim]
    left = ft.take(y, ft.arange(0, n - 1), axis=dim)
    right = ft.take(y, ft.arange(1, n), axis=dim)
    return (left + right) * 0.5 * step


def _cumulative_trapezoid(y: Any, x: Any = None, dim: int = -1, dx: float | None = None) -> Any:
    return ft.cumulative_sum(_trapezoids(y, x, dim, dx), axis=dim)


def _logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    return ft.logsumexp(x, axis=dim, keepdims=keepdim)


def _norm(x: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False) -> Any:
    p = 2 if p in ("fro", None) else p
    axis = None if dim is None or dim == [] or dim == () else dim
    return ft.linalg.vector_norm(x, ord=p, axis=axis, keepdims=keepdim)


def _sum_to_size(x: Any, *size: int) -> Any:
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    extra = x.ndim - len(size)
    axes = [*range(extra), *(extra + i for i, n in enumerate(size) if x.shape[extra + i] != n)]
    return ft.sum(x, axis=axes, keepdims=True).reshape(size)


def _scanned(function: Function) -> Function:
    """A scan; of a single number it is that number."""

    def call(x: Any, dim: int, dtype: Any = None) -> Any:
        x = x if dtype is None else x.astype(dtype_of(dtype))
        if x.ndim == 0:
            return function(x.reshape(1), axis=0).reshape(())
        return function(x, axis=dim)

    return call


def _covariance(x: Any, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    if fweights is not None or aweights is not None:
        return NotImplemented
    rows = x if x.ndim == 2 else x.reshape((1, -1))
    centred = rows - ft.mean(rows, axis=1, keepdims=True)
    product = centred @ ft.conj(centred).T / (rows.shape[1] - correction)
    return product if rows.shape[0] != 1 else product.reshape(())


def _dist(x: Any, y: Any, p: float = 2) -> Any:
    return ft.linalg.vector_norm(x - y, ord=p)


TABLE: dict[str, Function] = {
    "all": _index(ft.all),
    "any": _index(ft.any),
    "amax": _amax(ft.max),
    "amin": _amax(ft.min),
    "aminmax": lambda x, dim=None, keepdim=False: (
        ft.min(x, axis=dim, keepdims=keepdim),
        ft.max(x, axis=dim, keepdims=keepdim),
    ),
    "argmax": _index(ft.argmax),
    "argmin": _index(ft.argmin),
    "argsort": lambda x, dim=-1, descending=False, stable=False: ft.argsort(
        x, axis=dim, descending=descending
    ),
    "bincount": lambda x, weights=None, minlength=0: ft.bincount(x, weights, minlength=minlength),
    "bucketize": _bucketize,
    "count_nonzero": with_axes(ft.count_nonzero),
    "cov": _covariance,
    "cummax": _scan_with_index(ft.cummax),
    "cummin": _scan_with_index(ft.cummin),
    "cumprod": _scanned(ft.cumulative_prod),
    "cumsum": _scanned(ft.cumulative_sum),
    "logcumsumexp": _scanned(ft.logcumsumexp),
    "cumulative_trapezoid": _cumulative_trapezoid,
    "diff": _diff,
    "dist": _dist,
    "equal": lambda x, y: ft.array_equal(x, y),
    "allclose": lambda x, y, rtol=1e-5, atol=1e-8, equal_nan=False: ft.allclose(
        x, y, rtol=rtol, atol=atol, equal_nan=equal_nan
    ),
    "histc": _histc,
    "histogram": _histogram,
    "isin": lambda x, values, assume_unique=False, invert=False: ft.isin(x, values, invert=invert),
    "kthvalue": _kth,
    "logsumexp": _logsumexp,
    "max.reduction_no_dim": ft.max,
    "max.reduction_with_dim": _extreme("max"),
    "mean": _cast_first(ft.mean),
    "median": _index(ft.median),
    "min.reduction_no_dim": ft.min,
    "min.reduction_with_dim": _extreme("min"),
    "msort": lambda x: ft.sort(x, axis=0) if x.ndim else x,
    "nanmean": _cast_first(ft.nanmean),
    "nanmedian": _index(ft.nanmedian),
    "nanquantile": _quantile(ft.nanquantile),
    "nansum": _cast_first(ft.nansum),
    "norm": _norm,
    "norm.fro": _norm,
    "norm.inf": _norm,
    "prod": _cast_first(ft.prod),
    "quantile": _quantile(ft.quantile),
    "searchsorted": _searchsorted,
    "softmax": _cast_first(ft.softmax),
    "softmax.with_dtype": _cast_first(ft.softmax),
    "log_softmax": _cast_first(ft.log_softmax),
    "log_softmax.with_dtype": _cast_first(ft.log_softmax),
    "nn.functional.softmin": _cast_first(lambda x, axis: ft.softmax(-x, axis=axis)),
    "nn.functional.softmin.with_dtype": _cast_first(lambda x, axis: ft.softmax(-x, axis=axis)),
    "sort": _sort,
    "std": _variance(ft.std),
    "std.unbiased": _variance(ft.std),
    "std_mean": _variance(ft.std, with_mean=True),
    "std_mean.unbiased": _variance(ft.std, with_mean=True),
    "sum": _cast_first(ft.sum),
    "sum_to_size": _sum_to_size,
    "topk": _topk,
    "trapezoid": _trapezoid,
    "trapz": _trapezoid,
    "unique": _unique,
    "var": _variance(ft.var),
    "var.unbiased": _variance(ft.var),
    "var_mean": _variance(ft.var, with_mean=True),
    "var_mean.unbiased": _variance(ft.var, with_mean=True),
}
