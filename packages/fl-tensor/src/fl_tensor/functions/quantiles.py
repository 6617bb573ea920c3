"""Public quantiles, with numbers or variables as ``q``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn, TypeGuard

from fl_tensor import arguments, dtypes, functions
from fl_tensor.arguments import axes, flag_of, refuse
from fl_tensor.arrays.array import Array
from fl_tensor.derived.statistics import check_shares
from fl_tensor.dispatch.frontend import ArrayLike, beside, cast, operand, operands_of, run
from fl_tensor.functions import coercion
from fl_tensor.functions.creation import asarray
from fl_tensor.functions.elementwise import where
from fl_tensor.functions.gathering import take_along_axis
from fl_tensor.functions.shaping import moveaxis, permute, reshape

__all__ = ["nanpercentile", "nanquantile", "percentile", "quantile"]

AxesLike = int | Sequence[int] | None
Shares = float | Sequence[float] | ArrayLike


def quantile(
    x: ArrayLike,
    q: Shares,
    axis: AxesLike = None,
    keepdims: bool = False,
    method: str = "linear",
    **foreign: NoReturn,
) -> Any:
    """The values that shares ``q`` of the elements over axes do not exceed.

    q        a number in [0, 1], or an array of them, whose shape comes first in the result's
    method   between two elements: ``"linear"`` interpolation, the ``"lower"``, the ``"higher"``,
             their ``"midpoint"``, the ``"nearest"``

    Integers become the default float. NaN where there is one, and over nothing. The gradient by
    ``q`` is the slope of the linear interpolation; 0 where ``q`` meets an element, as in PyTorch.
    """
    if foreign:
        refuse("quantile", foreign)
    return _quantile("quantile", x, q, axis, keepdims, method)


def nanquantile(
    x: ArrayLike,
    q: Shares,
    axis: AxesLike = None,
    keepdims: bool = False,
    method: str = "linear",
    **foreign: NoReturn,
) -> Any:
    """``quantile`` of what is no NaN; NaN over nothing."""
    if foreign:
        refuse("nanquantile", foreign)
    return _quantile("nanquantile", x, q, axis, keepdims, method)


def percentile(
    x: ArrayLike,
    q: Shares,
    axis: AxesLike = None,
    keepdims: bool = False,
    method: str = "linear",
    **foreign: NoReturn,
) -> Any:
    """``quantile`` with ``q`` in percent."""
    if foreign:
        refuse("percentile", foreign)
    return _quantile("quantile", x, q, axis, keepdims, method, 100.0)


def nanpercentile(
    x: ArrayLike,
    q: Shares,
    axis: AxesLike = None,
    keepdims: bool = False,
    method: str = "linear",
    **foreign: NoReturn,
) -> Any:
    """``nanquantile`` with ``q`` in percent."""
    if foreign:
        refuse("nanpercentile", foreign)
    return _quantile("nanquantile", x, q, axis, keepdims, method, 100.0)


def _numbers(op: str, q: Any) -> tuple[tuple[float, ...], tuple[int, ...]]:
    # Python numbers stay what they are: the default float would round them.
    if isinstance(q, (list, tuple)):
        shape, flat = coercion.nested(q)
    elif arguments.is_single(q) and not isinstance(q, Array):
        shape, flat = (), [q]
    elif not isinstance(q, Array) and hasattr(q, "tolist"):  # of another library
        shape, flat = coercion.nested(q.tolist())
        shape = tuple(getattr(q, "shape", shape))
    else:
        made = asarray(q)
        shape, flat = made.shape, made.flatten().tolist()
    return tuple(arguments.float_of(op, v, "q") for v in flat), shape


def _is_differentiable(q: Any, method: str) -> TypeGuard[Array]:
    # An array of a class that keeps more than its value. Other methods are piecewise constant in q.
    return isinstance(q, Array) and not q._is_handle and method == "linear"


def _quantile(
    op: str, x: ArrayLike, q: Any, axis: AxesLike, keepdims: bool, method: str, whole: float = 1.0
) -> Any:
    # ``q`` in parts of ``whole``.
    x = operand(op, "S", beside(x, q))
    numbers, shape = _numbers(op, q)
    numbers = tuple(n / whole for n in numbers)
    over = axes(op, axis, x.shape)
    keepdims = keepdims is not False and flag_of(op, keepdims, "keepdims")
    if _is_differentiable(q, method) and q.size and math.prod(x.shape[i] for i in over):
        check_shares(op, numbers, method)
        return _interpolated(op, x, q / whole, over, keepdims)
    found = run(op, x, x._raw, numbers, over, keepdims, method)
    return reshape(found, (*shape, *found.shape[1:]))


def _interpolated(op: str, x: Any, q: Any, over: tuple[int, ...], keepdims: bool) -> Any:
    # "linear", by operations on q in place of numbers: derived/statistics.py says the same.
    dtype = x.dtype
    x, q = operands_of(op, "SS", x, cast(q, dtype))
    x, q = (cast(a, dtypes.accumulator(dtype)) for a in (x, q))
    rest = tuple(i for i in range(x.ndim) if i not in over)
    lead = tuple(x.shape[i] for i in rest)
    rows = functions.sort(reshape(permute(x, (*rest, *over)), (*lead, -1)), -1)
    absent = functions.isnan(rows)
    if op == "nanquantile":
        last = functions.maximum(rows.shape[-1] - 1 - absent.sum(-1, True), 0)
    else:  # a row with NaN ends with it
        last = rows.shape[-1] - 1
    place = reshape(q, (*(1,) * len(lead), -1)) * last
    before, after = functions.floor(place), functions.ceil(place)
    # Rounding may lead beyond the end of a long row.
    places = (functions.minimum(cast(i, dtypes.int64), last) for i in (before, after))
    low, high = (take_along_axis(rows, i, -1) for i in places)
    share, apart = place - before, low < high  # equal infinities and NaN have nothing between them
    a, b = where(apart, low, 0.0), where(apart, high, 0.0)
    found = where(apart, a * (1.0 - share) + b * share, low)
    if op == "quantile":
        found = where(absent[..., -1:], math.nan, found)
    kept = tuple(1 if i in over else n for i, n in enumerate(x.shape)) if keepdims else lead
    return cast(reshape(moveaxis(found, -1, 0), (*q.shape, *kept)), dtype)
