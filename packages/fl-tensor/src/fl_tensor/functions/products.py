"""Public products whose arguments take some reading: subscripts, pairs of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fl_tensor import arguments, rules
from fl_tensor.arguments import axis_of
from fl_tensor.errors import ArgumentError, ShapeError
from fl_tensor.frontend import ArrayLike, operands_of, prepare_all, run

__all__ = ["cross", "einsum", "tensordot", "vecdot"]


def einsum(subscripts: str, *operands: ArrayLike) -> Any:
    """Sums of products by the names of axes: ``einsum("ij,jk->ik", x, y)`` is a matrix product.

    A name that the result lacks is summed, a repeated one takes the diagonal, ``...`` stands for
    axes that broadcast. Without ``->`` the result has the axes of ``...`` and the names that occur
    once, in alphabetical order. The result has the operands' common dtype. Raises ArgumentError for
    subscripts that cannot be read, ShapeError for sizes that do not fit.
    """
    if not isinstance(subscripts, str):
        raise ArgumentError(
            f"[einsum] expected subscripts such as 'ij,jk->ik' first, got "
            f"{type(subscripts).__name__}"
        )
    xs = prepare_all("einsum", "N", operands)
    return run("einsum", xs[0], [x._raw for x in xs], subscripts)


def tensordot(x: ArrayLike, y: ArrayLike, axes: int | Sequence[Any] = 2) -> Any:
    """Sums of products over several axes. ``axes``: a pair of axes or of sequences of axes, of
    ``x`` and of ``y``; or n, for the last n of ``x`` and the first n of ``y``. The result has the
    other axes of ``x``, then those of ``y``."""
    x, y = operands_of("tensordot", "NN", x, y)
    if arguments.is_single(axes):
        n = arguments.int_of("tensordot", axes, "axes")
        if not 0 <= n <= min(x.ndim, y.ndim):
            raise ShapeError(f"[tensordot] x {x.shape} and y {y.shape}: no {n} axes to sum over")
        pair = (tuple(range(x.ndim - n, x.ndim)), tuple(range(n)))
    else:
        given = tuple(axes)  # type: ignore[arg-type]
        if len(given) != 2:
            raise ArgumentError(f"[tensordot] axes {axes!r}: expected an int or a pair")
        pair = (_axes(given[0], x.shape), _axes(given[1], y.shape))
        if len(pair[0]) != len(pair[1]):
            raise ArgumentError(f"[tensordot] axes {axes!r}: as many of x as of y are needed")
    return run("tensordot", x, x._raw, y._raw, pair)


def _axes(given: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    # In the order given: it says which axis of x meets which of y.
    numbers = arguments.ints_of("tensordot", given, "axes")
    found = tuple(axis_of("tensordot", n, shape) for n in numbers)
    if len(set(found)) != len(found):
        raise ShapeError(f"[tensordot] x {shape}: axes {numbers} name one axis twice")
    return found


def vecdot(x: ArrayLike, y: ArrayLike, axis: int = -1) -> Any:
    """``sum(conj(x) * y)`` along ``axis``, where sizes must be equal; the other axes broadcast.
    ``axis`` counts in the broadcast shape."""
    x, y = operands_of("vecdot", "NN", x, y)
    widest = x.shape if x.ndim >= y.ndim else y.shape
    return run("vecdot", x, x._raw, y._raw, axis_of("vecdot", axis, widest))


def cross(x: ArrayLike, y: ArrayLike, axis: int = -1) -> Any:
    """Vector product along ``axis``, which has size 3; the other axes broadcast. ``axis`` counts in
    the broadcast shape."""
    x, y = operands_of("cross", "NN", x, y)
    shape = rules.broadcast("cross", x.shape, y.shape)
    at = axis_of("cross", axis, shape)
    back = at - len(shape)
    for v in (x, y):
        if v.ndim < -back or v.shape[back] != 3:
            raise ShapeError(f"[cross] x {x.shape} and y {y.shape}: axis {back} must have size 3")
    if x.ndim != y.ndim:
        x, y = (run("broadcast_to", v, v._raw, shape) for v in (x, y))
    return run("cross", x, x._raw, y._raw, at)
