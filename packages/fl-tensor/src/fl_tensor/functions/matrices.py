"""Norms of vectors and matrices as NumPy has them, triangular systems, condition numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fl_tensor import arguments, functions, rules
from fl_tensor.dispatch.frontend import ArrayLike, operand, operands_of, run
from fl_tensor.errors import LinAlgError, ShapeError
from fl_tensor.functions import reducing, shaping
from fl_tensor.functions.elementwise import where
from fl_tensor.functions.grids import eye
from fl_tensor.functions.products import matmul

__all__ = ["cond", "norm", "solve_triangular"]

#: Triangles up to this size are solved as any matrix.
_LEAF = 64


def norm(
    x: ArrayLike,
    ord: str | float | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
) -> Any:
    """The norm of vectors or matrices, real, with the parameters of ``numpy.linalg.norm``.

    ord    of vectors a number, inf or -inf (``ft.norm``); of matrices "fro", "nuc", 1, -1, 2, -2,
           inf or -inf (``ft.linalg.matrix_norm``); None: root of the sum of squares
    axis   one axis: vectors; two: matrices, their rows and columns; None: ``x`` has one axis or
           two, or any number without ``ord``

    Raises ArgumentError for orders that the kind does not have.
    """
    x = operand("norm", "F", x)
    keepdims = arguments.flag_of("norm", keepdims, "keepdims")
    if axis is None and ord is None:
        return reducing.norm(x, keepdims=keepdims)
    given = range(x.ndim) if axis is None else arguments.ints_of("norm", axis, "axis")
    along = [arguments.axis_of("norm", a, x.shape) for a in given]
    if len(along) not in (1, 2) or len(set(along)) != len(along):
        raise ShapeError(
            f"[norm] x {x.shape}: axes {tuple(along)} are no vectors (one axis) or matrices (two "
            f"different ones)"
        )
    if len(along) == 1:
        order = 2.0 if ord is None else arguments.float_of("norm", ord, "ord")
        return reducing.norm(x, axis=along[0], keepdims=keepdims, ord=order)
    if ord is None or ord == "fro":
        return reducing.norm(x, axis=along, keepdims=keepdims)
    matrices = shaping.moveaxis(x, along, (-2, -1))
    found = run("matrix_norm", matrices, matrices._raw, False, ord)
    kept = tuple(1 if i in along else n for i, n in enumerate(x.shape))
    return shaping.reshape(found, kept) if keepdims else found


def cond(x: ArrayLike, p: str | float | None = None) -> Any:
    """The condition number of ``x`` (..., m, n): (...), ``norm(x, p) * norm(inv(x), p)`` with the
    orders of ``norm``. With None or 2 the quotient of the largest and the smallest singular value,
    with -2 its inverse; other orders need square matrices. inf where ``x`` is singular, which for
    -2 is the zero matrix alone. Raises LinAlgError for matrices without elements."""
    x = operand("cond", "F", x)
    if 0 in x.shape[-2:]:
        raise LinAlgError(f"[cond] x {x.shape}: matrices without elements have no condition number")
    if p is None or p in (2, -2):
        values = run("svdvals", x, x._raw)
        high, low = values[..., 0], values[..., -1]
        upper, lower = (low, high) if p == -2 else (high, low)
        singular = lower == 0
        return where(singular, math.inf, upper / where(singular, 1.0, lower))
    # Inverting raises for all matrices if one of them is singular.
    singular = run("slogdet", x, x._raw)[0] == 0
    one = eye(x.shape[-1], dtype=x.dtype, device=x.device, backend=x._backend)
    regular = where(shaping.expand_dims(singular, (-2, -1)), one, x)
    found = norm(x, p, (-2, -1)) * norm(run("inv", x, regular._raw), p, (-2, -1))
    return where(singular, math.inf, found)


def solve_triangular(
    x: ArrayLike, y: ArrayLike, *, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """The Z of ``x @ Z = y``, where ``x`` (..., n, n) is an upper triangle or with ``lower`` a
    lower one: the other elements are not read. ``y`` is (..., n, k), leading axes broadcast, or
    (n,), which gives (..., n).

    unit_diagonal  the diagonal counts as ones, and is not read either

    Substitution by blocks, so that matrix products do most of the work. Raises LinAlgError if there
    is a zero on the diagonal. Needs the capability "linalg".
    """
    op = "solve_triangular"
    x, y = operands_of(op, "FF", x, y)
    lower = arguments.flag_of(op, lower, "lower")
    unit = arguments.flag_of(op, unit_diagonal, "unit_diagonal")
    column = y.ndim == 1
    y = shaping.reshape(y, (*y.shape, 1)) if column else y
    size = x.shape[-1] if x.ndim else 0
    if x.ndim < 2 or y.ndim < 2 or x.shape[-2] != size or y.shape[-2] != size:
        rules.fail(op, x=x.shape, y=y.shape, why="expected (..., n, n) and (..., n, k), or (n,)")
    lead = rules.broadcast(op, x.shape[:-2], y.shape[:-2])
    y = functions.broadcast_to(y, (*lead, *y.shape[-2:]))
    if lower:  # in reverse order it is an upper one, whose factorisation exchanges no rows
        x, y = shaping.flip(x, (-2, -1)), shaping.flip(y, -2)
    found = _substituted(x, y, unit)
    found = shaping.flip(found, -2) if lower else found
    return shaping.squeeze(found, -1) if column else found


def _substituted(x: Any, y: Any, unit: bool) -> Any:
    # The upper triangle of x.
    size = x.shape[-1]
    if size <= _LEAF:
        leaf = functions.triu(x, 1 if unit else 0)
        if unit:
            leaf = leaf + eye(size, dtype=x.dtype, device=x.device, backend=x._backend)
        return run("solve", y, leaf._raw, y._raw)
    half = size // 2
    head, tail = slice(None, half), slice(half, None)
    last = _substituted(x[..., tail, tail], y[..., tail, :], unit)
    rest = y[..., head, :] - matmul(x[..., head, tail], last)
    return functions.concatenate([_substituted(x[..., head, head], rest, unit), last], -2)
