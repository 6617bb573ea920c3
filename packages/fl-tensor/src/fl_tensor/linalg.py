"""``ft.linalg``: factorisations of matrices and derived functions.

Matrices are the last two axes of an array, all axes before them are batches. Integers are taken as
float32; float32, float64, complex64 and complex128 are computed in as they are; 16-bit floats are
refused with DTypeError (they have too few digits: cast with ``astype``). A backend needs the
capability "linalg" for it (CapabilityError otherwise), except for what factorises nothing:
``vector_norm``, ``diagonal``, ``trace``, ``matrix_transpose`` and products of all dtypes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fl_tensor import arguments, dtypes, functions
from fl_tensor.derived.linalg import rank_from
from fl_tensor.dispatch import frontend
from fl_tensor.dispatch.frontend import ArrayLike, operand, operands_of, run
from fl_tensor.functions import elementwise, generated, products, reducing, shaping
from fl_tensor.functions import outer as outer
from fl_tensor.functions.creation import DTypeLike
from fl_tensor.functions.matrices import cond as cond
from fl_tensor.functions.matrices import norm as norm
from fl_tensor.functions.matrices import solve_triangular as solve_triangular
from fl_tensor.functions.products import cross as cross
from fl_tensor.functions.products import matmul as matmul
from fl_tensor.functions.products import tensordot as tensordot
from fl_tensor.functions.products import vecdot as vecdot

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def __dir__() -> list[str]:
    return __all__


class QRResult(NamedTuple):
    Q: Any
    R: Any


class SVDResult(NamedTuple):
    U: Any
    S: Any
    Vh: Any


class EighResult(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


class SlogdetResult(NamedTuple):
    sign: Any
    logabsdet: Any


class LstsqResult(NamedTuple):
    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


# ---- factorisations ------------------------------------------------------------------------------


def cholesky(x: ArrayLike, *, upper: bool = False) -> Any:
    """Lower triangular L with ``L @ L^H = x`` (..., n, n), or upper U with ``U^H @ U = x``. Only
    that triangle is read. Raises LinAlgError if ``x`` is not positive definite."""
    return _run("cholesky", x, upper)


def qr(x: ArrayLike, *, mode: str = "reduced") -> QRResult:
    """``(Q, R)``: orthonormal columns and an upper triangle with ``Q @ R = x`` (..., m, n). Q is
    (..., m, k) and R (..., k, n), k = min(m, n), or k = m with mode ``"complete"``."""
    return QRResult(*_run("qr", x, mode))


def svd(x: ArrayLike, *, full_matrices: bool = True) -> SVDResult:
    """``(U, S, Vh)`` with ``U @ diag(S) @ Vh = x`` (..., m, n): U (..., m, m) and Vh (..., n, n)
    unitary, S (..., k) real, descending, k = min(m, n). Without ``full_matrices`` U is (..., m, k)
    and Vh (..., k, n)."""
    return SVDResult(*_run("svd", x, full_matrices))


def svdvals(x: ArrayLike) -> Any:
    """The singular values of ``x`` (..., m, n), real, descending: (..., min(m, n))."""
    return _run("svdvals", x)


def eigh(x: ArrayLike) -> EighResult:
    """``(eigenvalues, eigenvectors)`` of a Hermitian ``x`` (..., n, n): (..., n), real and
    ascending, and (..., n, n), orthonormal columns. Only the lower triangle is read."""
    return EighResult(*_run("eigh", x))


def eigvalsh(x: ArrayLike) -> Any:
    """The eigenvalues of a Hermitian ``x`` (..., n, n), real and ascending: (..., n)."""
    return _run("eigvalsh", x)


def eig(x: ArrayLike) -> EigResult:
    """``(eigenvalues, eigenvectors)`` of ``x`` (..., n, n): (..., n) in no particular order and
    (..., n, n), columns of unit length; both complex."""
    return EigResult(*_run_to_complex("eig", x))


def eigvals(x: ArrayLike) -> Any:
    """The eigenvalues of ``x`` (..., n, n), complex, in no particular order: (..., n)."""
    return _run_to_complex("eigvals", x)


# ---- equations and determinants ------------------------------------------------------------------


def solve(x: ArrayLike, y: ArrayLike) -> Any:
    """The Z of ``x @ Z = y``: ``x`` (..., n, n), ``y`` (..., n, k), leading axes broadcast; or
    ``y`` (n,), one right-hand side for all, which gives (..., n). Raises LinAlgError if ``x`` is
    singular."""
    x, y = operands_of("solve", "FF", x, y)
    if y.ndim != 1:
        return run("solve", x, x._raw, y._raw)
    y = shaping.reshape(y, (*y.shape, 1))
    return shaping.squeeze(run("solve", x, x._raw, y._raw), -1)


def inv(x: ArrayLike) -> Any:
    """The inverse of ``x`` (..., n, n). Raises LinAlgError if ``x`` is singular."""
    return _run("inv", x)


def pinv(x: ArrayLike, *, rtol: ArrayLike | None = None) -> Any:
    """The Moore-Penrose inverse of ``x`` (..., m, n): (..., n, m). Singular values up to ``rtol``
    times the largest count as zero; a number or one per matrix (...), by default max(m, n) times
    the epsilon of the dtype."""
    return _truncated("pinv", x, rtol)


def lstsq(x: ArrayLike, y: ArrayLike, *, rtol: ArrayLike | None = None) -> LstsqResult:
    """``(solution, residuals, rank, singular_values)`` of the least squares problem ``x @ Z = y``
    with ``x`` (..., m, n), ``y`` (..., m, k) or (m,); leading axes broadcast.

    solution         the Z (..., n, k) for which ``x @ Z`` is nearest to ``y``, and of several the
                     smallest; (..., n) for ``y`` (m,)
    residuals        sums of the squares of ``x @ Z - y``, real: (..., k), or (...). They are there
                     for every shape and rank, where NumPy's are empty for some
    rank             of ``x``, int64: (...), as by ``matrix_rank``
    singular_values  of ``x``, descending: (..., min(m, n)), real

    ``rtol`` as in ``pinv``.
    """
    x, y = operands_of("lstsq", "FF", x, y)
    column = y.ndim == 1
    y = shaping.reshape(y, (*y.shape, 1)) if column else y
    tolerance = _tolerance("lstsq", x, rtol)
    solution = run("lstsq", x, x._raw, y._raw, tolerance)
    rest = functions.square(functions.absolute(products.matmul(x, solution) - y))
    residuals = reducing.sum(rest, axis=-2)
    values = svdvals(x)
    if 0 in x.shape:
        rank = matrix_rank(x)
    else:
        rank = x._wrap(rank_from(x._ops(), x._raw, values._raw, tolerance))
    if column:
        solution, residuals = shaping.squeeze(solution, -1), shaping.squeeze(residuals, -1)
    return LstsqResult(solution, residuals, rank, values)


def det(x: ArrayLike) -> Any:
    """The determinant of ``x`` (..., n, n): (...)."""
    return _run("det", x)


def slogdet(x: ArrayLike) -> SlogdetResult:
    """``(sign, logabsdet)`` with ``sign * exp(logabsdet) = det(x)``, both (...): for determinants
    that are too large or too small for the dtype. A singular ``x`` gives (0, -inf)."""
    return SlogdetResult(*_run("slogdet", x))


# ---- size ----------------------------------------------------------------------------------------


def matrix_rank(x: ArrayLike, *, rtol: ArrayLike | None = None) -> Any:
    """The number of singular values of ``x`` (..., m, n) above ``rtol`` times the largest, int64:
    (...). ``rtol`` as in ``pinv``."""
    return _truncated("matrix_rank", x, rtol)


def matrix_norm(x: ArrayLike, *, keepdims: bool = False, ord: str | float | None = "fro") -> Any:
    """A norm of each matrix of ``x`` (..., m, n), real: (...), or (..., 1, 1) with ``keepdims``.

    ``"fro"`` or None: root of the sum of squares. ``"nuc"``: sum of the singular values; 2, -2: the
    largest, the smallest. 1, -1: the largest, the smallest sum of magnitudes in a column; inf,
    -inf: in a row.
    """
    keepdims = arguments.flag_of("matrix_norm", keepdims, "keepdims")
    return _run("matrix_norm", x, keepdims, "fro" if ord is None else ord)


def vector_norm(
    x: ArrayLike,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Any:
    """The norm of the vectors along ``axis`` - one axis, several that count as one, or all:
    ``(sum |x|^ord)^(1/ord)``; inf the largest, -inf the smallest magnitude, 0 the number of
    non-zeros. Real."""
    return reducing.norm(x, axis=axis, keepdims=keepdims, ord=ord)


# ---- without factorisation -----------------------------------------------------------------------


def matrix_power(x: ArrayLike, n: int) -> Any:
    """``x`` (..., m, m) multiplied with itself ``n`` times; the identity for n = 0, powers of the
    inverse below. Integers stay integers for n >= 0."""
    x = operand("matrix_power", "N", x)
    return run("matrix_power", x, x._raw, arguments.int_of("matrix_power", n, "n"))


def matrix_transpose(x: ArrayLike) -> Any:
    """The last two axes exchanged: (..., m, n) gives (..., n, m)."""
    return functions.swapaxes(x, -2, -1)


def diagonal(x: ArrayLike, *, offset: int = 0) -> Any:
    """The elements of matrices (..., m, n) whose column is ``offset`` more than their row, as a
    last axis in place of the two."""
    return functions.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, *, offset: int = 0, dtype: DTypeLike = None) -> Any:
    """The sum of ``diagonal(x, offset)``, in ``dtype`` or in that of ``ft.sum``."""
    if dtype is None:
        return generated.trace(x, offset, -2, -1)
    return elementwise.cast(generated.trace(elementwise.cast(x, dtype), offset, -2, -1), dtype)


def _run(op: str, x: ArrayLike, *arguments: Any) -> Any:
    x = operand(op, "F", x)
    return run(op, x, x._raw, *arguments)


def _run_to_complex(op: str, x: ArrayLike) -> Any:
    x = operand(op, "F", x)
    frontend.complex_for(op, x, "linalg")
    return run(op, x, x._raw)


def _truncated(op: str, x: ArrayLike, rtol: ArrayLike | None) -> Any:
    x = operand(op, "F", x)
    return run(op, x, x._raw, _tolerance(op, x, rtol))


def _tolerance(op: str, x: Any, rtol: ArrayLike | None) -> Any:
    if rtol is None:
        return None
    _, found = operands_of(op, "AA", x, rtol)
    return frontend.cast(found, dtypes.real_of(x.dtype))._raw
