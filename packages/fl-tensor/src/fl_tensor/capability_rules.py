"""Shape and dtype rules of optional operations.

An operation with several results has a rule that gives a tuple of ``Spec``.
"""

from __future__ import annotations

from typing import Any

from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, DTypeError
from fl_tensor.roles import Axis, Shape
from fl_tensor.rules import Spec, broadcast, fail

__all__ = [
    "cholesky", "eig", "eigh", "fft", "ifft", "irfft", "qr", "rfft", "slogdet", "solve", "svd",
]  # fmt: skip

#: What matrices are factorised in; 16-bit floats have too few digits for it.
FACTORISED = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)


def matrices(op: str, x: Any, name: str = "x") -> tuple[Shape, int, int]:
    """Leading axes, rows and columns of ``x``. Raises ShapeError, or DTypeError where the dtype
    cannot be factorised in."""
    if len(x.shape) < 2:
        fail(op, **{name: x.shape}, why="expected matrices (..., m, n): at least two axes")
    if x.dtype not in FACTORISED:
        have = ", ".join(d.name for d in FACTORISED)
        raise DTypeError(
            f"[{op}] {name} is {x.dtype}: matrices are factorised in {have}; cast it with astype"
        )
    return tuple(x.shape[:-2]), x.shape[-2], x.shape[-1]


def square(op: str, x: Any, name: str = "x") -> tuple[Shape, int]:
    """Leading axes and size of square ``x``. Raises as ``matrices``."""
    lead, m, n = matrices(op, x, name)
    if m != n:
        fail(op, **{name: x.shape}, why=f"expected square matrices, these are {m} by {n}")
    return lead, n


def _like(x: Any, shape: Shape, dtype: DType | None = None) -> Spec:
    return Spec(shape, dtype or x.dtype, x.device)


# ---- linalg -----------------------------------------------------------------------------------


def cholesky(x: Any, upper: bool = False) -> Spec:
    lead, n = square("cholesky", x)
    return _like(x, (*lead, n, n))


def qr(x: Any, mode: str = "reduced") -> tuple[Spec, Spec]:
    lead, m, n = matrices("qr", x)
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"[qr] mode {mode!r}: expected 'reduced' or 'complete'")
    k = m if mode == "complete" else min(m, n)
    return _like(x, (*lead, m, k)), _like(x, (*lead, k, n))


def svd(x: Any, full_matrices: bool = True) -> tuple[Spec, Spec, Spec]:
    lead, m, n = matrices("svd", x)
    k = min(m, n)
    left, right = (m, n) if full_matrices else (k, k)
    values = _like(x, (*lead, k), dtypes.real_of(x.dtype))
    return _like(x, (*lead, m, left)), values, _like(x, (*lead, right, n))


def eigh(x: Any) -> tuple[Spec, Spec]:
    lead, n = square("eigh", x)
    return _like(x, (*lead, n), dtypes.real_of(x.dtype)), _like(x, (*lead, n, n))


def eig(x: Any) -> tuple[Spec, Spec]:
    lead, n = square("eig", x)
    dtype = dtypes.complex_of(x.dtype)
    return _like(x, (*lead, n), dtype), _like(x, (*lead, n, n), dtype)


def solve(x: Any, y: Any) -> Spec:
    lead, n = square("solve", x)
    batch, m, k = matrices("solve", y, "y")
    if x.dtype is not y.dtype:
        raise DTypeError(f"[solve] x is {x.dtype} and y is {y.dtype}: operands must agree here")
    if m != n:
        fail("solve", x=x.shape, y=y.shape, why=f"{n} equations need {n} rows of y, not {m}")
    return _like(x, (*broadcast("solve", lead, batch), n, k))


def slogdet(x: Any) -> tuple[Spec, Spec]:
    lead, _ = square("slogdet", x)
    return _like(x, lead), _like(x, lead, dtypes.real_of(x.dtype))


# ---- fft --------------------------------------------------------------------------------------


def _transformed(op: str, x: Any, axis: Axis, size: int, dtype: DType) -> Spec:
    if x.dtype not in FACTORISED or (x.dtype.kind == "f") is not (op == "rfft"):
        wanted = FACTORISED[:2] if op == "rfft" else FACTORISED[2:]
        raise DTypeError(
            f"[{op}] x is {x.dtype}: expected {' or '.join(d.name for d in wanted)}; cast it first"
        )
    if x.shape[axis] == 0 or size == 0:
        fail(op, x=x.shape, why=f"axis {axis} has no element to transform")
    return _like(x, (*x.shape[:axis], size, *x.shape[axis + 1 :]), dtype)


def fft(x: Any, axis: Axis) -> Spec:
    return _transformed("fft", x, axis, x.shape[axis], x.dtype)


def ifft(x: Any, axis: Axis) -> Spec:
    return _transformed("ifft", x, axis, x.shape[axis], x.dtype)


def rfft(x: Any, axis: Axis) -> Spec:
    size = x.shape[axis] // 2 + 1
    return _transformed("rfft", x, axis, size, dtypes.complex_of(x.dtype))


def irfft(x: Any, n: int, axis: Axis) -> Spec:
    if x.shape[axis] and n > 0 and x.shape[axis] != n // 2 + 1:
        why = f"{n} real elements come from {n // 2 + 1} along axis {axis}, not {x.shape[axis]}"
        fail("irfft", x=x.shape, why=why)
    return _transformed("irfft", x, axis, n, dtypes.real_of(x.dtype))
