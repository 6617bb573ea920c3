"""Public search and count functions, with checked arguments."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, NoReturn

from fl_tensor import arguments, dtypes, functions
from fl_tensor.arguments import axis_of, flag_of, refuse
from fl_tensor.dispatch import frontend
from fl_tensor.dispatch.frontend import ArrayLike, cast, operand, operands_of, run
from fl_tensor.errors import ArgumentError, ShapeError
from fl_tensor.functions.gathering import gather, take_along_axis
from fl_tensor.functions.shaping import reshape

__all__ = [
    "argmax",
    "argmin",
    "bincount",
    "histogram",
    "max_with_index",
    "min_with_index",
    "searchsorted",
    "take",
]


def take(x: ArrayLike, indices: ArrayLike, axis: int | None = None, **foreign: NoReturn) -> Any:
    """``x`` at integer ``indices`` along ``axis``, or at positions in C order. Negative indices
    count from the end; IndexingError for one that is out of range."""
    if foreign:
        refuse("take", foreign)
    x, indices = operands_of("take", "AA", x, indices)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    return gather(x, indices, axis)


def argmax(
    x: ArrayLike, axis: int | None = None, keepdims: bool = False, **foreign: NoReturn
) -> Any:
    """Position of the first maximum along ``axis``, or in C order, int64; a NaN counts as the
    maximum."""
    if foreign:
        refuse("argmax", foreign)
    return _position("argmax", x, axis, keepdims)


def argmin(
    x: ArrayLike, axis: int | None = None, keepdims: bool = False, **foreign: NoReturn
) -> Any:
    """Position of the first minimum along ``axis``, or in C order, int64; a NaN counts as the
    minimum."""
    if foreign:
        refuse("argmin", foreign)
    return _position("argmin", x, axis, keepdims)


def _position(op: str, x: ArrayLike, axis: int | None, keepdims: bool) -> Any:
    x = operand(op, "Q", x)
    keepdims = keepdims is not False and flag_of(op, keepdims, "keepdims")
    if axis is not None:
        return run(op, x, x._raw, axis_of(op, axis, x.shape), keepdims)
    flat = reshape(x, (-1,))
    found = run(op, flat, flat._raw, 0, False)
    return reshape(found, (1,) * x.ndim) if keepdims else found


def max_with_index(
    x: ArrayLike, axis: int = -1, keepdims: bool = False, **foreign: NoReturn
) -> tuple[Any, Any]:
    """The largest elements along ``axis``, and their positions (of equal ones the first)."""
    if foreign:
        refuse("max_with_index", foreign)
    return _extreme("max_with_index", "argmax", x, axis, keepdims)


def min_with_index(
    x: ArrayLike, axis: int = -1, keepdims: bool = False, **foreign: NoReturn
) -> tuple[Any, Any]:
    """The smallest elements along ``axis``, and their positions (of equal ones the first)."""
    if foreign:
        refuse("min_with_index", foreign)
    return _extreme("min_with_index", "argmin", x, axis, keepdims)


def _extreme(op: str, chosen: str, x: ArrayLike, axis: int, keepdims: bool) -> tuple[Any, Any]:
    x = operand(op, "Q", x)
    axis = axis_of(op, axis, x.shape)
    keepdims = keepdims is not False and flag_of(op, keepdims, "keepdims")
    places = run(chosen, x, x._raw, axis, True)
    values = take_along_axis(x, places, axis)
    if keepdims:
        return values, places
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return reshape(values, shape), reshape(places, shape)


def searchsorted(
    x: ArrayLike, values: ArrayLike, side: str = "left", sorter: ArrayLike | None = None
) -> Any:
    """Where ``values`` belong in the ascending ``x`` (or in ``x`` at ``sorter``): int64 i such that
    ``x[:i] < value <= x[i:]``, or ``<= value <`` with ``side="right"``. NaN is the largest value.

    Of a vector ``x`` (n,) ``values`` may have any shape. Of rows ``x`` (..., n) they are (..., m),
    with the same leading axes, and each row of them is looked for in its own. ``sorter`` has the
    shape of ``x``. The result has the shape of ``values``. Raises ShapeError.
    """
    if sorter is not None:
        x = take_along_axis(x, sorter, -1)
    x, values = operands_of("searchsorted", "QQ", x, values)
    if x.ndim > 1:
        return _search_rows(x, values, side)
    return run("searchsorted", values, x._raw, values._raw, side)


def _search_rows(x: Any, values: Any, side: str) -> Any:
    # Place among all of the row, less the place among the values: as in derived/search.py.
    if side not in ("left", "right"):
        raise ArgumentError(f"[searchsorted] side {side!r}: expected 'left' or 'right'")
    if values.ndim != x.ndim or values.shape[:-1] != x.shape[:-1]:
        raise ShapeError(
            f"[searchsorted] x {x.shape} and values {values.shape}: rows are searched one by one, "
            f"all axes but the last must agree"
        )
    count = values.shape[-1]
    both = [values, x] if side == "left" else [x, values]
    among_all = _ranks(functions.concatenate(both, -1))
    start = 0 if side == "left" else x.shape[-1]
    return among_all[..., start : start + count] - _ranks(values)


def _ranks(x: Any) -> Any:
    # The place that each element takes when its row is sorted; equal ones keep their order.
    return functions.argsort(functions.argsort(x, -1), -1)


def bincount(x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0) -> Any:
    """How often each of 0 .. max(x) occurs in the vector ``x`` of integers, int64; or the sums of
    their ``weights``. At least ``minlength`` numbers; how many depends on data."""
    x, weights = operands_of("bincount", "Af", x, weights)
    length = arguments.int_of("bincount", minlength, "minlength")
    if x.ndim != 1:
        raise ShapeError(f"[bincount] x {x.shape}: expected one axis")
    if length < 0:
        raise ArgumentError(f"[bincount] minlength {length}: may not be negative")
    if x.size and x.dtype.is_integer:
        low, high = x.min().item(), x.max().item()
        if low < 0:
            raise ArgumentError(f"[bincount] x has the number {low}: only counts from 0 on")
        length = max(length, high + 1)
    lead = x if weights is None else weights
    return run("bincount", lead, x._raw, length, None if weights is None else weights._raw)


def histogram(
    x: ArrayLike,
    bins: int | ArrayLike = 10,
    range: Sequence[float] | None = None,
    weights: ArrayLike | None = None,
    density: bool = False,
) -> tuple[Any, Any]:
    """How many elements lie in each bin, int64 (or the sums of their ``weights``), and the edges.

    bins     the ascending edges, or how many bins of equal width there are
    range    (lowest, highest) edge; by default of the elements, which are read for it
    density  counts as a probability density instead: over all bins it integrates to 1

    A bin has its lower edge, the last one also its upper. Elements outside and NaN do not count.
    """
    if not arguments.is_single(bins):
        x, weights, bins = operands_of("histogram", "AaA", x, weights, bins)
    x, weights = operands_of("histogram", "Af", x, weights)
    if arguments.is_single(bins):
        bins = _edges(x, arguments.int_of("histogram", bins, "bins"), range)
    x, edges = operands_of("histogram", "QQ", x, bins)
    if edges.ndim == 1 and edges.size > 1 and edges._backend.has_values:
        if not (edges[1:] >= edges[:-1]).all():
            raise ArgumentError("[histogram] bins: the edges must be in ascending order")
    if weights is not None and weights.shape != x.shape:
        raise ShapeError(f"[histogram] x {x.shape} and weights {weights.shape}: shapes differ")
    lead = x if weights is None else weights
    given = None if weights is None else weights._raw
    counts = run("histogram", lead, x._raw, edges._raw, given)
    if density:
        shares = cast(counts, edges.dtype)
        counts = shares / shares.sum() / (edges[1:] - edges[:-1])
    return counts, edges


def _edges(x: Any, bins: int, range: Sequence[float] | None) -> Any:
    if bins < 1:
        raise ArgumentError(f"[histogram] bins {bins}: at least one is needed")
    if range is not None:
        low, high = (arguments.float_of("histogram", v, "range") for v in range)
    elif x.size:
        low, high = float(x.min().item()), float(x.max().item())
    else:
        low, high = 0.0, 1.0
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ArgumentError(
            f"[histogram] range ({low}, {high}): expected finite, ascending numbers"
        )
    if low == high:
        low, high = low - 0.5, high + 0.5
    kind = x.dtype if x.dtype.is_floating else dtypes.default_float()
    numbers = [low + (high - low) * (i / bins) for i in builtins.range(bins)]
    return frontend.converted([*numbers, high], x, kind)
