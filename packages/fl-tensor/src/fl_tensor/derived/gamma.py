"""The logarithm of the gamma function, and its derivatives.

Elements below 1/2 (``lgamma``) or 0 (the others) are reflected. Near 2 ``lgamma`` is the Taylor
series there, which keeps its zeros at 1 and 2 exact. Elsewhere all are asymptotic series after a
shift of the argument. Sections 5.5, 5.7, 5.11, 5.15 and 25.11 of DLMF (https://dlmf.nist.gov).
"""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import dtypes
from fl_tensor.derived.precision import in_float32
from fl_tensor.errors import ArgumentError
from fl_tensor.roles import Ops, S

__all__ = ["digamma", "lgamma", "polygamma"]

SINCE = {"digamma": "1.1", "lgamma": "1.1", "polygamma": "1.1"}

#: zeta(k) - 1 for k = 2, 3, ...: coefficients of the Taylor series at 2 (DLMF 5.7.3).
_ZETA = (
    *(0.6449340668482264, 0.2020569031595943, 0.08232323371113819, 0.03692775514336993),
    *(0.01734306198444914, 0.008349277381922827, 0.00407735619794434, 0.0020083928260822143),
    *(0.0009945751278180853, 0.0004941886041194645, 0.0002460865533080483, 0.00012271334757848915),
    *(6.124813505870483e-05, 3.058823630702049e-05, 1.528225940865187e-05, 7.637197637899763e-06),
    *(3.81729326499984e-06, 1.908212716553939e-06, 9.539620338727962e-07, 4.769329867878064e-07),
    *(2.38450502727733e-07, 1.1921992596531106e-07, 5.960818905125948e-08, 2.980350351465228e-08),
    *(1.4901554828365043e-08, 7.45071178983543e-09),
)
_EULER = 0.5772156649015329
#: Bernoulli numbers B2, B4, ...
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
#: From here on Stirling's series has the precision of float64.
_LARGE = 7.5
#: So far the argument of the derivatives is shifted.
_SHIFT = 10
#: The largest order of ``polygamma``: about here the series at the shift begins to diverge.
_ORDERS = 60
#: Up to this order rounding errors in the bases of powers may stay.
_LOW = 4


@in_float32
def lgamma(ops: Ops, x: S) -> Any:
    """``log(|gamma(x)|)``: infinite at 0, at the negative integers and at both infinities. For
    x > 0 the relative error is below 4 epsilons; below 0 it is 8 epsilons of 1 or of the result."""
    half, one = ops.constant(0.5, x), ops.constant(1.0, x)
    reflected = ops.less(x, half)
    y = ops.where(reflected, ops.subtract(one, x), x)
    is_large = ops.less(ops.constant(_LARGE, x), y)
    found = ops.where(is_large, _stirling(ops, y), _near_two(ops, y))
    # gamma(x) gamma(1 - x) = pi / sin(pi x), of which the fraction of x is enough.
    fraction = ops.multiply(ops.subtract(x, ops.round(x)), ops.constant(math.pi, x))
    sine = ops.log(ops.absolute(ops.sin(fraction)))
    mirrored = ops.subtract(ops.subtract(ops.constant(math.log(math.pi), x), sine), found)
    found = ops.where(reflected, mirrored, found)
    return ops.where(ops.isinf(x), ops.absolute(x), found)


def _near_two(ops: Ops, y: Any) -> Any:
    # For 1/2 <= y <= 7.5: gamma(y) = (y - 1) (y - 2) ... gamma(w) with w in [3/2, 5/2].
    one, edge = ops.constant(1.0, y), ops.constant(2.5, y)
    w, factor = y, one
    for _ in range(int(_LARGE - 2.5)):
        above = ops.less(edge, w)
        w = ops.where(above, ops.subtract(w, one), w)
        factor = ops.where(above, ops.multiply(factor, w), factor)
    below = ops.less(y, ops.constant(1.5, y))
    factor = ops.log(ops.where(below, y, factor))
    factor = ops.where(below, ops.negative(factor), factor)
    t = ops.where(below, ops.subtract(y, one), ops.subtract(w, ops.constant(2.0, y)))
    count = len(_ZETA) if y.dtype is dtypes.float64 else 11
    signed = [(-1) ** k * z / k for k, z in enumerate(_ZETA[:count], 2)]
    series = _polynomial(ops, [1.0 - _EULER, *signed], t)
    return ops.add(factor, ops.multiply(t, series))


def _stirling(ops: Ops, y: Any) -> Any:
    # DLMF 5.11.1.
    inverse = ops.divide(ops.constant(1.0, y), y)
    terms = [b / ((2 * j) * (2 * j - 1)) for j, b in enumerate(_BERNOULLI, 1)]
    series = _polynomial(ops, terms, ops.multiply(inverse, inverse))
    main = ops.multiply(
        ops.subtract(y, ops.constant(0.5, y)), ops.subtract(ops.log(y), ops.constant(1.0, y))
    )
    rest = ops.constant(0.5 * math.log(2.0 * math.pi) - 0.5, y)
    return ops.add(main, ops.add(rest, ops.multiply(series, inverse)))


@in_float32
def digamma(ops: Ops, x: S) -> Any:
    """The derivative of ``lgamma``. Infinite at 0, with the sign opposite to that of the zero; NaN
    at the negative integers. The error is below 8 epsilons of 1 or of the result."""
    reflected, y = _reflected(ops, x)
    shifted = ops.add(y, ops.constant(float(_SHIFT), x))
    inverse = ops.divide(ops.constant(1.0, x), shifted)
    terms = [b / (2 * j) for j, b in enumerate(_BERNOULLI, 1)]
    squared = ops.multiply(inverse, inverse)
    series = ops.multiply(_polynomial(ops, terms, squared), squared)  # DLMF 5.11.2
    tail = ops.add(series, ops.multiply(ops.constant(0.5, x), inverse))
    found = ops.subtract(ops.log(shifted), ops.add(tail, _reciprocals(ops, y)))
    return ops.where(reflected, _mirrored(ops, x, found, 0), found)


@in_float32
def polygamma(ops: Ops, x: S, n: int) -> Any:
    """The derivative of ``digamma`` of order ``n``, 0 <= n <= 60; infinite (odd ``n``) or NaN at
    the negative integers. For x > 0 the relative error is below 10 epsilons where the result is no
    subnormal number. Below 0 parts of the result overflow from order 20 on in float32. Raises
    ArgumentError for another order, the gradient by ``x`` for n = 60."""
    if not 0 <= n <= _ORDERS:
        raise ArgumentError(f"[polygamma] n {n}: expected an order from 0 to {_ORDERS}")
    if n == 0:
        return ops.digamma(x)
    reflected, y = _reflected(ops, x)
    found = _zeta(ops, n, y)
    found = found if n % 2 else ops.negative(found)
    return ops.where(reflected, _mirrored(ops, x, found, n), found)


def _reflected(ops: Ops, x: Any) -> tuple[Any, Any]:
    # Where x is negative, and there 1 - x.
    negative = ops.less(x, ops.constant(0.0, x))
    return negative, ops.where(negative, ops.subtract(ops.constant(1.0, x), x), x)


def _reciprocals(ops: Ops, y: Any) -> Any:
    # The sum of 1 / (y + k) over the steps of the shift.
    one, total = ops.constant(1.0, y), None
    for k in reversed(range(_SHIFT)):
        term = ops.divide(one, ops.add(y, ops.constant(float(k), y)) if k else y)
        total = term if total is None else ops.add(total, term)
    return total


def _zeta(ops: Ops, n: int, y: Any) -> Any:
    # n! times the sum of (y + k)^-s over all k >= 0, by Euler and Maclaurin's formula (DLMF
    # 25.11.43). The sum alone may underflow: powers are those of (y + k) / c, with c^s near to n!.
    s, factorial = n + 1, math.factorial(n)
    c = 2.0 ** math.floor(math.log2(factorial) / s)
    far = ops.less(ops.constant(c, y), y)

    def chosen(near: float, beyond: float) -> Any:
        return ops.where(far, ops.constant(beyond, y), ops.constant(near, y))

    scale = chosen(1 / c, 0.5 / c)

    def power(k: int, exponent: int) -> Any:
        step = ops.constant(float(k), y)
        total = ops.add(y, step) if k else y
        scaled = ops.multiply(total, scale)
        if n <= _LOW:
            inverse = ops.divide(ops.constant(1.0, y), scaled)
            return ops.power(inverse, ops.constant(float(exponent), y))
        found = ops.power(scaled, ops.constant(-float(exponent), y))
        if k == 0:
            return found
        # A high power multiplies the rounding error of y + k, which is known (Knuth's two-sum).
        added = ops.subtract(total, y)
        error = ops.add(ops.subtract(y, ops.subtract(total, added)), ops.subtract(step, added))
        lost = ops.multiply(ops.divide(error, total), ops.constant(float(exponent), y))
        kept = ops.subtract(ops.constant(1.0, y), lost)
        return ops.where(ops.isfinite(total), ops.multiply(found, kept), found)

    terms, rising = [], float(s)
    for j, b in enumerate(_BERNOULLI, 1):
        terms.append(b / math.factorial(2 * j) * rising)
        rising *= (s + 2 * j - 1) * (s + 2 * j)
    shifted = ops.add(y, ops.constant(float(_SHIFT), y))
    inverse = ops.divide(ops.constant(1.0, y), shifted)
    series = _polynomial(ops, terms, ops.multiply(inverse, inverse))
    tail = ops.add(ops.constant(0.5, y), ops.multiply(series, inverse))
    tail = ops.add(ops.constant(1.0 / n, y), ops.multiply(tail, inverse))
    total = ops.multiply(power(_SHIFT, n), ops.divide(tail, scale))
    for k in reversed(range(_SHIFT)):
        total = ops.add(total, power(k, s))
    return ops.multiply(total, chosen(factorial / c**s, factorial / (2 * c) ** s))


def _mirrored(ops: Ops, x: Any, found: Any, n: int) -> Any:
    # The derivative of order n at x < 0, given that at 1 - x (DLMF 5.5.4). That of pi cot(pi x) is
    # pi^(n + 1) P(cot(pi x)), where each order takes a polynomial P(c) to -(1 + c^2) P'(c).
    coefficients = [0, 1]
    for _ in range(n):
        slope = [i * c for i, c in enumerate(coefficients)][1:]
        coefficients = [-a - b for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    fraction = ops.multiply(ops.subtract(x, ops.round(x)), ops.constant(math.pi, x))
    cotangent = ops.divide(ops.cos(fraction), ops.sin(fraction))
    scale = math.pi ** (n + 1)
    jump = _polynomial(ops, [c * scale for c in coefficients], cotangent)
    mirrored = ops.subtract(ops.negative(found) if n % 2 else found, jump)
    pole = ops.constant(math.inf if n % 2 else math.nan, x)
    return ops.where(ops.equal(fraction, ops.constant(0.0, x)), pole, mirrored)


def _polynomial(ops: Ops, coefficients: list[float], x: Any) -> Any:
    # Lowest power first.
    *rest, last = coefficients
    value = ops.constant(last, x)
    for coefficient in reversed(rest):
        value = ops.add(ops.multiply(value, x), ops.constant(coefficient, x))
    return value
