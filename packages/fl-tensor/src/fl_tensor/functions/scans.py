"""Running extremes with their positions, as PyTorch has them."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from fl_tensor import functions
from fl_tensor.arguments import axis_of, refuse
from fl_tensor.dispatch.frontend import ArrayLike, operand, run
from fl_tensor.functions.creation import arange
from fl_tensor.functions.elementwise import where
from fl_tensor.functions.gathering import take_along_axis
from fl_tensor.functions.shaping import reshape

__all__ = ["cummax", "cummin", "logcumsumexp"]


class RunningExtreme(NamedTuple):
    """The extreme of all elements up to each one, and its position, int64."""

    values: Any
    indices: Any


def cummax(x: ArrayLike, axis: int = -1, **foreign: NoReturn) -> RunningExtreme:
    """The largest element so far along ``axis`` and its position: of equal ones, and of several
    NaNs, the latest. Both have the shape of ``x``. The gradient goes to that element."""
    if foreign:
        refuse("cummax", foreign)
    return _running("cumulative_max", x, axis)


def cummin(x: ArrayLike, axis: int = -1, **foreign: NoReturn) -> RunningExtreme:
    """As ``cummax``, of the smallest element."""
    if foreign:
        refuse("cummin", foreign)
    return _running("cumulative_min", x, axis)


def logcumsumexp(x: ArrayLike, axis: int = -1, **foreign: NoReturn) -> Any:
    """``log(cumulative_sum(exp(x)))`` without overflow: ``ft.cumulative_logsumexp`` under
    PyTorch's name."""
    if foreign:
        refuse("logcumsumexp", foreign)
    return functions.cumulative_logsumexp(x, axis)


def _running(op: str, x: ArrayLike, axis: int) -> RunningExtreme:
    x = operand(op, "Q", x)
    axis = axis_of(op, axis, x.shape)
    best = run(op, x, x._raw, axis)
    reached = functions.equal(x, best)
    if x.dtype.is_floating:
        reached = functions.logical_or(reached, functions.isnan(x))
    along = tuple(n if i == axis else 1 for i, n in enumerate(x.shape))
    numbers = arange(x.shape[axis], device=x.device, backend=x._backend)
    latest = where(reached, reshape(numbers, along), 0)
    latest = functions.cumulative_max(latest, axis)
    return RunningExtreme(take_along_axis(x, latest, axis), latest)
