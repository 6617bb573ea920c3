"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_tensor import arguments, dtypes
from fl_tensor.dispatch.frontend import ArrayLike, cast, operand, operands_of
from fl_tensor.numpy_functions.creating import vander
from fl_tensor.numpy_functions.shaping import atleast_1d, trim_zeros
from fl_tensor.numpy_functions.signals import convolve

__all__ = [
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "roots",
]


def polyval(p: ArrayLike, x: ArrayLike) -> Any:
    """The value of the polynomial ``p`` (n,) at ``x``, by Horner's rule."""
    p, x = operands_of("polyval", "NN", p, x)
    made = ft.zeros_like(x)
    for coefficient in _coefficients("polyval", p):
        made = made * x + coefficient
    return made


def polyadd(p: ArrayLike, q: ArrayLike) -> Any:
    """The sum of two polynomials."""
    p, q = _equal_length("polyadd", p, q)
    return p + q


def polysub(p: ArrayLike, q: ArrayLike) -> Any:
    """The difference of two polynomials."""
    p, q = _equal_length("polysub", p, q)
    return p - q


def polymul(p: ArrayLike, q: ArrayLike) -> Any:
    """The product of two polynomials; zeros in front stay."""
    return convolve(p, q)


def polydiv(p: ArrayLike, q: ArrayLike) -> tuple[Any, Any]:
    """``(quotient, remainder)`` of two polynomials. The first coefficient of ``q`` is not 0. Reads
    the remainder, which has no zeros in front."""
    p, q = operands_of("polydiv", "FF", p, q)
    p, q = _coefficients("polydiv", p), _coefficients("polydiv", q)
    steps = p.size - q.size + 1
    if steps < 1:
        return p[:1] * 0, p.copy()
    rest, quotient = p, []
    for _ in range(steps):
        factor = rest[:1] / q[:1]
        quotient.append(factor)
        rest = ft.concatenate([rest[1 : q.size] - factor * q[1:], rest[q.size :]], 0)
    rest = trim_zeros(rest, "f")
    return ft.concatenate(quotient, 0), rest if rest.size else p[:1] * 0


def polyder(p: ArrayLike, m: int = 1) -> Any:
    """The derivative of a polynomial, ``m`` times over. dtype as ``prod``."""
    p = _coefficients("polyder", operand("polyder", "N", p))
    p = cast(p, dtypes.sum_dtype(p.dtype))
    for _ in range(_order("polyder", m)):
        p = (p * _exponents(p))[:-1]
    return p.copy()


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Any:
    """The integral of a polynomial, ``m`` times over; ``k``: the constant of each time, or of all,
    by default 0."""
    p, k = operands_of("polyint", "Ff", p, 0.0 if k is None else k)
    p = _coefficients("polyint", p)
    constants = ft.broadcast_to(atleast_1d(k), (_order("polyint", m),))
    for i in range(constants.size):
        p = ft.concatenate([p / (_exponents(p) + 1), constants[i : i + 1]], 0)
    return p.copy()


def poly(x: ArrayLike) -> Any:
    """The polynomial with these roots (n,), or the characteristic polynomial of a matrix (n, n):
    n + 1 coefficients, the first of them 1. Real for a real ``x``."""
    x = atleast_1d(operand("poly", "F", x))
    if x.ndim == 2:
        made = poly(ft.linalg.eigvals(x))
        return made if x.dtype.kind == "c" else ft.real(made)
    if x.ndim != 1:
        raise ft.ShapeError(f"[poly] x {x.shape}: expected a vector or a square matrix")
    one = ft.ones_like(x[:1]) if x.size else ft.ones((1,), x.dtype)
    made = one
    for i in range(x.size):
        made = convolve(made, ft.concatenate([one, -x[i : i + 1]], 0))
    return made


def roots(p: ArrayLike) -> Any:
    """The zeros of a polynomial, complex: eigenvalues of its companion matrix. Zeros in front do
    not count. Reads ``p``."""
    p = _coefficients("roots", operand("roots", "F", p))
    p = trim_zeros(p, "f")
    kept = trim_zeros(p, "b")
    at_zero = p.size - kept.size
    if kept.size < 2:
        return ft.zeros((at_zero,), dtypes.complex_of(p.dtype), p.device, p.backend)
    below = ft.eye(kept.size - 2, kept.size - 1, 0, p.dtype, p.device, p.backend)
    top = ft.expand_dims(-kept[1:] / kept[:1], 0)
    found = ft.linalg.eigvals(ft.concatenate([top, below], 0))
    return ft.pad(found, (0, at_zero))


def polyfit(x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, w: Any = None) -> Any:
    """The polynomial of degree ``deg`` that is nearest to ``y`` (n,) or (n, k) at places ``x``
    (n,), by least squares: (deg + 1,) or (deg + 1, k).

    ``w`` (n,) multiplies the distances before they are squared. Singular values below ``rcond``
    (by default n times the epsilon of the dtype) times the largest count as zero.
    """
    x, y, w = operands_of("polyfit", "FFf", x, y, w)
    if x.ndim != 1 or y.ndim not in (1, 2) or y.shape[0] != x.size:
        raise ft.ShapeError(
            f"[polyfit] x {x.shape} and y {y.shape}: expected (n,), and (n,) or (n, k)"
        )
    matrix = vander(x, arguments.int_of("polyfit", deg, "deg") + 1)
    if w is not None:
        matrix = matrix * ft.expand_dims(w, 1)
        y = y * (w if y.ndim == 1 else ft.expand_dims(w, 1))
    scale = ft.sqrt(ft.sum(matrix * matrix, 0))
    limit = x.size * ft.finfo(x.dtype).eps if rcond is None else rcond
    found = ft.linalg.lstsq(matrix / scale, y, rtol=limit).solution
    return found / (scale if y.ndim == 1 else ft.expand_dims(scale, 1))


def _coefficients(op: str, p: Any) -> Any:
    if p.ndim > 1:
        raise ft.ShapeError(f"[{op}] coefficients {p.shape}: expected a vector")
    return atleast_1d(p)


def _equal_length(op: str, p: ArrayLike, q: ArrayLike) -> list[Any]:
    both = [_coefficients(op, a) for a in operands_of(op, "NN", p, q)]
    size = max(a.size for a in both)
    return [ft.pad(a, (size - a.size, 0)) for a in both]


def _exponents(p: Any) -> Any:
    return ft.arange(p.size - 1, -1, -1, p.dtype, p.device, p.backend)


def _order(op: str, m: int) -> int:
    order = arguments.int_of(op, m, "m")
    if order < 0:
        raise ft.ArgumentError(f"[{op}] m {order}: may not be negative")
    return order
