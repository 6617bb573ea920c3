"""The extension ``linalg``: factorisations of matrices and what follows from them, those of
``ft.linalg``."""

from __future__ import annotations

from typing import Any

from fl_tensor import linalg
from fl_tensor.array_api.linear_algebra import matmul as matmul
from fl_tensor.array_api.linear_algebra import matrix_transpose as matrix_transpose
from fl_tensor.array_api.linear_algebra import tensordot as tensordot
from fl_tensor.array_api.linear_algebra import vecdot as vecdot
from fl_tensor.array_api.reductions import sum_dtype
from fl_tensor.array_api.signatures import binary, unary
from fl_tensor.arrays.array import Array
from fl_tensor.dtypes import DType

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

det = unary(linalg.det)
eig = unary(linalg.eig)
eigh = unary(linalg.eigh)
eigvals = unary(linalg.eigvals)
eigvalsh = unary(linalg.eigvalsh)
inv = unary(linalg.inv)
outer = binary(linalg.outer)
slogdet = unary(linalg.slogdet)
solve = binary(linalg.solve)
svdvals = unary(linalg.svdvals)


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """Lower triangular L with ``L @ L^H = x``, or upper U with ``U^H @ U = x``."""
    return linalg.cholesky(x, upper=upper)


def qr(x: Array, /, *, mode: str = "reduced") -> linalg.QRResult:
    """``(Q, R)``: orthonormal columns and an upper triangle with ``Q @ R = x``."""
    return linalg.qr(x, mode=mode)


def svd(x: Array, /, *, full_matrices: bool = True) -> linalg.SVDResult:
    """``(U, S, Vh)`` with ``U @ diag(S) @ Vh = x``, the singular values S descending."""
    return linalg.svd(x, full_matrices=full_matrices)


def pinv(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """The Moore-Penrose inverse; singular values up to ``rtol`` times the largest count as 0."""
    return linalg.pinv(x, rtol=rtol)


def matrix_rank(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """The number of singular values above ``rtol`` times the largest."""
    return linalg.matrix_rank(x, rtol=rtol)


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """A norm of each matrix: ``"fro"``, ``"nuc"``, 1, 2, inf, -1, -2 or -inf."""
    return linalg.matrix_norm(x, keepdims=keepdims, ord=ord)


def vector_norm(
    x: Array,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Array:
    """The norm of the vectors along ``axis``; several axes count as one."""
    return linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)


def matrix_power(x: Array, n: int, /) -> Array:
    """``x`` multiplied with itself ``n`` times; powers of the inverse for a negative ``n``."""
    return linalg.matrix_power(x, n)


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Vector product along an axis of size 3."""
    return linalg.cross(x1, x2, axis)


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """The elements of matrices whose column is ``offset`` more than their row, as a last axis."""
    return linalg.diagonal(x, offset=offset)


def trace(x: Array, /, *, offset: int = 0, dtype: DType | None = None) -> Array:
    """The sum of ``diagonal(x, offset)``; ``dtype`` as in ``sum``."""
    return linalg.trace(x, offset=offset, dtype=sum_dtype(x) if dtype is None else dtype)
