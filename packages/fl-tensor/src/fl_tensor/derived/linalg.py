"""Derived linear algebra, from the factorisations of the capability "linalg". Leading axes are
batches.
"""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import dtypes
from fl_tensor.capability_rules import matrices, square
from fl_tensor.errors import ArgumentError, ShapeError
from fl_tensor.limits import finfo
from fl_tensor.roles import A, F, N, Ops

__all__ = [
    "det",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "pinv",
    "svdvals",
]
CAPABILITY = "linalg"


def inv(ops: Ops, x: F) -> Any:
    """The inverse of ``x`` (..., n, n). Raises LinAlgError if ``x`` is singular."""
    square("inv", x)
    return ops.solve(x, _identity(ops, x))


def det(ops: Ops, x: F) -> Any:
    """The determinant of ``x`` (..., n, n): (...)."""
    square("det", x)
    sign, log = ops.slogdet(x)
    size = ops.exp(log)
    return ops.multiply(sign, size if size.dtype is x.dtype else ops.cast(size, x.dtype))


def svdvals(ops: Ops, x: F) -> Any:
    """The singular values of ``x`` (..., m, n), descending: (..., min(m, n)), real."""
    matrices("svdvals", x)
    return ops.svd(x, False)[1]


def eigvalsh(ops: Ops, x: F) -> Any:
    """The eigenvalues of a Hermitian ``x`` (..., n, n), real and ascending: (..., n). Only the
    lower triangle is read."""
    square("eigvalsh", x)
    return ops.eigh(x)[0]


def eigvals(ops: Ops, x: F) -> Any:
    """The eigenvalues of ``x`` (..., n, n), complex, in no particular order: (..., n)."""
    square("eigvals", x)
    return ops.eig(x)[0]


def pinv(ops: Ops, x: F, rtol: A | None = None) -> Any:
    """The Moore-Penrose inverse of ``x`` (..., m, n): (..., n, m). Singular values up to ``rtol``
    times the largest count as zero; ``rtol`` is real and broadcasts to (...), by default max(m, n)
    times the epsilon of the dtype."""
    lead, m, n = matrices("pinv", x)
    if 0 in x.shape:
        return ops.full((*lead, n, m), 0, x.dtype, x.device)
    u, values, vh = ops.svd(x, False)
    kept = ops.greater(values, _threshold(ops, x, values, rtol))
    # The zeros are replaced before the division, so that no gradient becomes NaN.
    divisors = ops.where(kept, values, ops.constant(1.0, values))
    inverse = ops.divide(ops.cast(kept, values.dtype), divisors)
    inverse = inverse if inverse.dtype is x.dtype else ops.cast(inverse, x.dtype)
    scaled = ops.multiply(_adjoint(ops, vh), ops.expand_dims(inverse, len(lead)))
    return ops.matmul(scaled, _adjoint(ops, u))


def matrix_rank(ops: Ops, x: F, rtol: A | None = None) -> Any:
    """The number of singular values of ``x`` (..., m, n) above ``rtol`` times the largest, int64:
    (...). ``rtol`` as in ``pinv``."""
    lead, _, _ = matrices("matrix_rank", x)
    if 0 in x.shape:
        return ops.full(lead, 0, dtypes.int64, x.device)
    return rank_from(ops, x, ops.svdvals(x), rtol)


def rank_from(ops: Ops, x: Any, values: Any, rtol: Any | None) -> Any:
    """``matrix_rank`` of an ``x`` with elements, whose singular values (..., k) are known."""
    above = ops.greater(values, _threshold(ops, x, values, rtol))
    return ops.count_nonzero(above, (len(values.shape) - 1,))


def lstsq(ops: Ops, x: F, y: F, rtol: A | None = None) -> Any:
    """The Z (..., n, k) for which ``x @ Z`` is nearest to ``y`` (..., m, k), ``x`` (..., m, n); of
    several the smallest. Leading axes broadcast; ``rtol`` as in ``pinv``."""
    return ops.matmul(ops.pinv(x, rtol), y)


def matrix_power(ops: Ops, x: N, n: int) -> Any:
    """``x`` (..., m, m) multiplied with itself ``n`` times; the identity for n = 0, powers of the
    inverse below."""
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"[matrix_power] x {x.shape}: expected square matrices (..., m, m)")
    if n < 0:
        x, n = ops.inv(x), -n
    result = None
    while n:
        if n & 1:
            result = x if result is None else ops.matmul(result, x)
        n >>= 1
        x = ops.matmul(x, x) if n else x
    return _identity(ops, x) if result is None else result


def matrix_norm(ops: Ops, x: F, keepdims: bool = False, ord: str | float = "fro") -> Any:
    """A norm of each matrix of ``x`` (..., m, n), real: (...), or (..., 1, 1) with ``keepdims``.

    ``"fro"``: root of the sum of squares. ``"nuc"``: sum of the singular values; 2, -2: the
    largest, the smallest. 1, -1: the largest, the smallest sum of magnitudes in a column; inf,
    -inf: in a row.
    """
    lead, _, _ = matrices("matrix_norm", x)
    rows, columns = len(lead), len(lead) + 1
    if ord == "fro":
        return ops.norm(x, (rows, columns), keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        summed, chosen = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = ops.sum(ops.absolute(x), (summed,), True)
        found = (ops.max if ord > 0 else ops.min)(sums, (chosen,), True)
    elif ord in ("nuc", 2, -2):
        reduce = {"nuc": ops.sum, 2: ops.max, -2: ops.min}[ord]
        found = ops.expand_dims(reduce(ops.svdvals(x), (rows,), True), columns)
    else:
        known = "'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        raise ArgumentError(f"[matrix_norm] ord {ord!r}: expected {known}")
    return found if keepdims else ops.reshape(found, lead)


def _identity(ops: Ops, x: Any) -> Any:
    # Of the shape and dtype of square matrices.
    size = x.shape[-1]
    positions = ops.arange(0, size, 1, dtypes.int64, x.device)
    diagonal = ops.equal(ops.reshape(positions, (size, 1)), positions)
    return ops.broadcast_to(ops.cast(diagonal, x.dtype), tuple(x.shape))


def _threshold(ops: Ops, x: Any, values: Any, rtol: Any | None) -> Any:
    # (..., 1): singular values up to here count as zero. There is at least one.
    last = len(values.shape) - 1
    largest = ops.max(values, (last,), True)
    if rtol is None:
        rtol = ops.constant(max(x.shape[-2:]) * finfo(values.dtype).eps, values)
    else:
        rtol = ops.expand_dims(rtol, len(rtol.shape))
    return ops.multiply(largest, rtol)


def _adjoint(ops: Ops, x: Any) -> Any:
    turned = ops.swapaxes(x, len(x.shape) - 2, len(x.shape) - 1)
    return ops.conj(turned) if x.dtype.kind == "c" else turned
