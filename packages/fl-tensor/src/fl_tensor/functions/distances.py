"""Distances between the rows of two matrices."""

from __future__ import annotations

from typing import Any

from fl_tensor import arguments, dtypes, functions
from fl_tensor.dispatch.frontend import ArrayLike, cast, operands_of
from fl_tensor.errors import ArgumentError, ShapeError
from fl_tensor.functions.elementwise import where
from fl_tensor.functions.products import matmul
from fl_tensor.functions.reducing import norm, sum
from fl_tensor.functions.shaping import expand_dims

__all__ = ["cdist"]


def cdist(x: ArrayLike, y: ArrayLike, p: float = 2.0, *, by_matmul: bool = False) -> Any:
    """The distance of every row of ``x`` (..., n, k) to every row of ``y`` (..., m, k):
    (..., n, m); leading axes broadcast.

    p          the order of the norm of the differences: a number >= 0, or inf; as in ``ft.norm``
    by_matmul  for p = 2: from ``|x|^2 - 2 x y + |y|^2``, in a matrix product instead of all
               n m k differences. Faster and smaller, but a distance far below the norms of its
               rows has an error of about sqrt(epsilon) times these, and one of rows whose squares
               overflow is NaN or inf

    The gradient is 0 at a distance of 0, as PyTorch's. Raises ShapeError for rows of different
    lengths, ArgumentError for a negative ``p``.
    """
    x, y = operands_of("cdist", "SS", x, y)
    order = arguments.float_of("cdist", p, "p")
    if not order >= 0:
        raise ArgumentError(f"[cdist] p {p}: expected a number >= 0, or inf")
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            f"[cdist] x {x.shape} and y {y.shape}: expected rows of one length, (..., n, k) and "
            f"(..., m, k)"
        )
    if not arguments.flag_of("cdist", by_matmul, "by_matmul"):
        return norm(expand_dims(x, -2) - expand_dims(y, -3), axis=-1, ord=order)
    if order != 2:
        raise ArgumentError(f"[cdist] p {p}: by_matmul is for p = 2")
    dtype = x.dtype
    x, y = (cast(v, dtypes.accumulator(dtype)) for v in (x, y))
    squares = sum(x * x, -1, True) + expand_dims(sum(y * y, -1), -2)
    squares = squares - 2.0 * matmul(x, functions.swapaxes(y, -1, -2))
    together = squares <= 0  # NaN is not
    return cast(where(together, 0.0, functions.sqrt(where(together, 1.0, squares))), dtype)
