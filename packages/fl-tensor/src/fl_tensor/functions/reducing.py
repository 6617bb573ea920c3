"""Public reductions and scans with arguments to parse: a dtype, weights, ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from fl_tensor import arguments, dtypes
from fl_tensor.arguments import axes, axis_of, flag_of, refuse
from fl_tensor.dispatch.frontend import (
    ArrayLike,
    cast,
    operand,
    operands_of,
    raw,
    run,
    same_value,
)
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, ShapeError
from fl_tensor.functions.shaping import reshape

__all__ = [
    "average",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "norm",
    "prod",
    "sum",
]

AxesLike = int | Sequence[int] | None


def sum(
    x: ArrayLike,
    axis: AxesLike = None,
    keepdims: bool = False,
    dtype: DType | str | type[Any] | None = None,
    **foreign: NoReturn,
) -> Any:
    """Sum over axes, computed in ``dtype``; without one bool and integers give int64 (uint64
    stays), floats their own dtype."""
    if foreign:
        refuse("sum", foreign)
    x = operand("sum", "A", x)
    keepdims = keepdims is not False and flag_of("sum", keepdims, "keepdims")
    if dtype is None:
        return run("sum", x, x._raw, axes("sum", axis, x.shape), keepdims)
    x = cast(x, dtypes.dtype(dtype))
    return cast(run("sum", x, x._raw, axes("sum", axis, x.shape), keepdims), x.dtype)


def prod(
    x: ArrayLike,
    axis: AxesLike = None,
    keepdims: bool = False,
    dtype: DType | str | type[Any] | None = None,
    **foreign: NoReturn,
) -> Any:
    """Product over axes; dtype as ``sum``."""
    if foreign:
        refuse("prod", foreign)
    x = operand("prod", "A", x)
    if dtype is not None:
        x = cast(x, dtypes.dtype(dtype))
    keepdims = keepdims is not False and flag_of("prod", keepdims, "keepdims")
    made = run("prod", x, x._raw, axes("prod", axis, x.shape), keepdims)
    return made if dtype is None else cast(made, x.dtype)


def cumulative_sum(
    x: ArrayLike,
    axis: int | None = -1,
    include_initial: bool = False,
    dtype: DType | str | type[Any] | None = None,
    **foreign: NoReturn,
) -> Any:
    """Running sum along ``axis``, each element included; ``include_initial`` puts a 0 before them.
    dtype as ``sum``."""
    if foreign:
        refuse("cumulative_sum", foreign)
    return _running("cumulative_sum", x, axis, 0 if include_initial else None, dtype)


def cumulative_prod(
    x: ArrayLike,
    axis: int | None = -1,
    include_initial: bool = False,
    dtype: DType | str | type[Any] | None = None,
    **foreign: NoReturn,
) -> Any:
    """Running product along ``axis``, each element included; ``include_initial`` puts a 1 before
    them. dtype as ``prod``."""
    if foreign:
        refuse("cumulative_prod", foreign)
    return _running("cumulative_prod", x, axis, 1 if include_initial else None, dtype)


def _running(
    op: str,
    x: ArrayLike,
    axis: int | None,
    initial: int | None,
    dtype: DType | str | type[Any] | None,
) -> Any:
    x = operand(op, "N", x)
    if axis is None and x.ndim > 1:
        raise ArgumentError(f"[{op}] x {x.shape}: several axes, so say which")
    axis = 0 if axis is None else axis
    if dtype is not None:
        x = cast(x, dtypes.dtype(dtype))
    axis = axis_of(op, axis, x.shape)
    made = run(op, x, x._raw, axis)
    if dtype is not None:
        made = cast(made, x.dtype)
    if initial is None:
        return made
    low = tuple(int(i == axis) for i in range(x.ndim))
    none = (0,) * x.ndim
    return run("pad", made, made._raw, low, none, none, initial)


def diff(
    x: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
    **foreign: NoReturn,
) -> Any:
    """Differences of neighbours along ``axis``, ``n`` times over; of bools, whether they differ.
    ``prepend`` and ``append`` are put before and after ``x`` first; one without axes is a single
    element. ``n=0`` gives ``x``, as NumPy and PyTorch do, without what is put around it."""
    if foreign:
        refuse("diff", foreign)
    x, prepend, append = operands_of("diff", "Ppp", x, prepend, append)
    n, axis = arguments.int_of("diff", n, "n"), axis_of("diff", axis, x.shape)
    if n == 0:
        return same_value(x)
    return run("diff", x, x._raw, n, axis, raw(prepend), raw(append))


def average(
    x: ArrayLike,
    axis: AxesLike = None,
    weights: ArrayLike | None = None,
    keepdims: bool = False,
    **foreign: NoReturn,
) -> Any:
    """``sum(x * weights) / sum(weights)`` over axes; the mean without weights. Weights have the
    shape of ``x``, or of its axes that are averaged over."""
    if foreign:
        refuse("average", foreign)
    x, weights = operands_of("average", "Ff", x, weights)
    over = axes("average", axis, x.shape)
    keepdims = keepdims is not False and flag_of("average", keepdims, "keepdims")
    if weights is None:
        return run("mean", x, x._raw, over, keepdims)
    if weights.shape != x.shape:
        if weights.shape != tuple(x.shape[a] for a in over):
            raise ShapeError(
                f"[average] x {x.shape} and weights {weights.shape}: expected the shape of x or "
                f"that of axes {over}"
            )
        weights = reshape(weights, [n if i in over else 1 for i, n in enumerate(x.shape)])
    return run("average", x, x._raw, weights._raw, over, keepdims)


def norm(
    x: ArrayLike,
    *positional: Any,
    axis: AxesLike = None,
    keepdims: bool = False,
    ord: float = 2.0,
    **foreign: NoReturn,
) -> Any:
    """Vector norm over axes: ``(sum |x|^ord)^(1/ord)``; ``inf`` the largest, ``-inf`` the smallest
    magnitude, 0 the count of non-zeros. Real. All but ``x`` by name: ArgumentError otherwise."""
    if foreign:
        refuse("norm", foreign)
    if positional:
        raise ArgumentError(
            f"[norm] second argument {positional[0]!r}: an order or an axis? Write "
            f"norm(x, ord=...) or norm(x, axis=...)"
        )
    x = operand("norm", "F", x)
    order = arguments.float_of("norm", ord, "ord")
    keepdims = keepdims is not False and flag_of("norm", keepdims, "keepdims")
    return run("norm", x, x._raw, axes("norm", axis, x.shape), keepdims, order)
