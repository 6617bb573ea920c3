"""Running and descriptive statistics, histograms in several dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import fl_tensor as ft
from fl_tensor import arguments, dtypes
from fl_tensor.arguments import refuse
from fl_tensor.dispatch.frontend import ArrayLike, cast, operand, operands_of, prepare_all
from fl_tensor.functions.creation import DTypeLike
from fl_tensor.numpy_functions.operands import together
from fl_tensor.numpy_functions.shaping import atleast_2d, ravel

__all__ = [
    "corrcoef",
    "cov",
    "cumprod",
    "cumsum",
    "histogram2d",
    "histogram_bin_edges",
    "histogramdd",
    "nancumprod",
    "nancumsum",
    "ptp",
]

# ---- running -------------------------------------------------------------------------------------


def cumsum(
    x: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, **foreign: NoReturn
) -> Any:
    """Running sum along ``axis``, or over all elements in C order. dtype as ``sum``; bools are
    counted."""
    if foreign:
        refuse("cumsum", foreign)
    x, axis = _line("cumsum", x, axis)
    return ft.cumulative_sum(x, axis, dtype=dtype)


def cumprod(
    x: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, **foreign: NoReturn
) -> Any:
    """Running product along ``axis``, or over all elements in C order. dtype as ``prod``."""
    if foreign:
        refuse("cumprod", foreign)
    x, axis = _line("cumprod", x, axis)
    return ft.cumulative_prod(x, axis, dtype=dtype)


def nancumsum(x: ArrayLike, axis: int | None = None, dtype: DTypeLike = None) -> Any:
    """``cumsum`` with NaN as 0."""
    x, axis = _line("nancumsum", x, axis)
    return ft.cumulative_sum(ft.where(ft.isnan(x), 0, x), axis, dtype=dtype)


def nancumprod(x: ArrayLike, axis: int | None = None, dtype: DTypeLike = None) -> Any:
    """``cumprod`` with NaN as 1."""
    x, axis = _line("nancumprod", x, axis)
    return ft.cumulative_prod(ft.where(ft.isnan(x), 1, x), axis, dtype=dtype)


def _line(op: str, x: ArrayLike, axis: int | None) -> tuple[Any, int]:
    x = operand(op, "A", x)
    x = ft.cast(x, dtypes.int64) if x.dtype is dtypes.bool else x
    return (ravel(x), 0) if axis is None else (x, axis)


# ---- description ---------------------------------------------------------------------------------


def ptp(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
    """The largest less the smallest element over axes ("peak to peak")."""
    return ft.max(x, axis, keepdims) - ft.min(x, axis, keepdims)


def cov(
    x: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
) -> Any:
    """The covariance matrix of variables, one in each row of ``x`` (k, n): shape (k, k), without
    axes for one variable.

    y         more variables, in the form of ``x``
    rowvar    False: one variable in each column
    bias      divide by n, not by n - 1; ``ddof`` gives what is taken from n instead, infinity or
              NaN being the result where nothing is left
    fweights  how often each observation counts: integers (n,)
    aweights  the relative weight of each observation: (n,)
    """
    x, y, fweights, aweights = operands_of("cov", "Ffaf", x, y, fweights, aweights)
    rows = _variables(x, rowvar)
    if y is not None:
        rows = ft.concatenate([rows, _variables(y, rowvar)], 0)
    less = arguments.int_of("cov", int(not bias) if ddof is None else ddof, "ddof")
    weights = None if fweights is None else cast(fweights, dtypes.real_of(rows.dtype))
    if aweights is not None:
        weights = aweights if weights is None else weights * aweights
    if weights is None:
        total: Any = rows.shape[1]
        centred = rows - ft.mean(rows, 1, True)
        scaled, divisor = centred, float(total - less)
    else:
        total = ft.sum(weights)
        centred = rows - ft.sum(rows * weights, 1, True) / total
        scaled, divisor = centred * weights, total - less
        if aweights is not None:
            divisor = total - less * ft.sum(weights * aweights) / total
    found = ft.matmul(scaled, ft.conj(ft.swapaxes(centred, 0, 1)))
    left = max(divisor, 0.0) if isinstance(divisor, float) else ft.maximum(divisor, 0.0)
    return ft.squeeze(found / left)


def _variables(x: Any, rowvar: bool) -> Any:
    if x.ndim > 2:
        raise ft.ShapeError(f"[cov] x {x.shape}: expected a vector or a matrix")
    return atleast_2d(x) if rowvar or x.ndim < 2 else ft.swapaxes(x, 0, 1)


def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True) -> Any:
    """Pearson's correlation coefficients of variables: ``cov`` divided by the two standard
    deviations, within [-1, 1]."""
    found = cov(x, y, rowvar)
    if found.ndim == 0:
        return found / found
    deviations = ft.sqrt(ft.real(ft.diagonal(found)))
    found = found / deviations / ft.expand_dims(deviations, 1)
    return found if found.dtype.kind == "c" else ft.clip(found, -1.0, 1.0)


# ---- histograms ----------------------------------------------------------------------------------


def histogram_bin_edges(
    x: ArrayLike, bins: int | ArrayLike = 10, range: Sequence[float] | None = None
) -> Any:
    """The edges of the bins of ``ft.histogram`` with these arguments."""
    x = ravel(operand("histogram_bin_edges", "A", x))
    if x.size > 2:  # its ends have the same edges
        x = ft.stack([ft.min(x), ft.max(x)], 0)
    return ft.histogram(x, bins, range)[1]


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = 10,
    range: Sequence[Sequence[float]] | None = None,
    density: bool = False,
    weights: ArrayLike | None = None,
) -> tuple[Any, Any, Any]:
    """``(counts, x_edges, y_edges)`` of points in bins: counts (nx, ny). ``bins``: one number or
    one vector of edges for both axes, or a pair of them. The rest as in ``histogramdd``."""
    if not arguments.is_single(bins) and len(bins) > 2:
        bins = [bins, bins]
    counts, (first, second) = histogramdd([x, y], bins, range, density, weights)
    return counts, first, second


def histogramdd(
    sample: ArrayLike | Sequence[ArrayLike],
    bins: Any = 10,
    range: Sequence[Sequence[float] | None] | None = None,
    density: bool = False,
    weights: ArrayLike | None = None,
) -> tuple[Any, tuple[Any, ...]]:
    """``(counts, edges)`` of points in bins: an axis and a vector of edges for each coordinate.

    sample   points (n, d), or a list of d vectors (n,)
    bins     how many of equal width there are, or for each coordinate a number or ascending edges
    range    for each coordinate (lowest, highest), or None: of its elements, which are read
    density  counts as a probability density instead
    weights  (n,): sums of these instead of counts

    A bin has its lower edge, the last one also its upper. Points outside do not count. Counts are
    floats.
    """
    op = "histogramdd"
    several = isinstance(sample, (list, tuple))
    points = list(sample) if several else [sample]
    many = [] if arguments.is_single(bins) else list(bins)
    weights, *given = together(op, weights, *points, *many)
    columns, many = prepare_all(op, "Q", given[: len(points)]), given[len(points) :]
    if not several:
        columns = list(ft.unstack(ft.swapaxes(atleast_2d(columns[0]), -2, -1), 0))
    count = len(columns)
    many = [bins] * count if arguments.is_single(bins) else many
    ranges = [None] * count if range is None else list(range)
    if not len(many) == len(ranges) == count:
        raise ft.ShapeError(f"[{op}] {count} coordinates, {len(many)} bins, {len(ranges)} ranges")
    edges = tuple(histogram_bin_edges(c, b, r) for c, b, r in zip(columns, many, ranges))
    shape = tuple(e.size - 1 for e in edges)
    number, inside = _numbers(columns, edges)
    found = ft.bincount(ft.where(inside, number, math.prod(shape)), weights, math.prod(shape) + 1)
    kind = edges[0].dtype if weights is None else found.dtype
    counts = ft.reshape(ft.cast(found[:-1], kind), shape)
    if density:
        counts = counts / ft.sum(counts)
        for axis, each in enumerate(edges):
            widths = [-1 if i == axis else 1 for i, _ in enumerate(edges)]
            counts = counts / ft.reshape(ft.diff(each), widths)
    return counts, edges


def _numbers(columns: Sequence[Any], edges: Sequence[Any]) -> tuple[Any, Any]:
    # The number of each point's bin in C order, and whether it is in one.
    number: Any = 0
    inside: Any = True
    for column, edge in zip(columns, edges):
        found = ft.searchsorted(edge, column, "right") - 1
        found = ft.where(column == edge[-1], edge.size - 2, found)
        inside = ft.logical_and((found >= 0) & (found < edge.size - 1), inside)
        number = number * (edge.size - 1) + found
    return number, inside
