"""Rows of the gamma function's logarithm, its derivatives, and the inverse error function."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import listed, unary
from fl_tensor.testing.opcase import (
    EDGE,
    NON_CONTIGUOUS,
    PLAIN,
    ZERO_D,
    OpCase,
    Sample,
    Tolerance,
    operand,
)
from fl_tensor.testing.references.exact import scalar
from fl_tensor.testing.values import numbers

NAN, INF = math.nan, math.inf
SMOOTH = (PLAIN, ZERO_D, NON_CONTIGUOUS)
COMPOSED = Tolerance(32, scale=1.0)
#: The references are sums of so many terms, and the first terms of the remainder.
_TERMS = 200


def _at(*values: float) -> Callable[[DType], Sequence[float]]:
    return lambda dtype: values


def _lgamma(x: float) -> float:
    pole = math.isfinite(x) and x <= 0 and x == math.floor(x)
    return INF if pole else math.lgamma(x)


def _polygamma(x: float, n: int) -> float:
    # From above 0 by the series, from below by recurrence.
    if math.isnan(x) or x == -INF:
        return NAN
    if x == INF:
        return (-1.0) ** (n + 1) * 0.0 if n else INF
    if x < 0 and x == math.floor(x):
        return INF if n % 2 else NAN
    sign, terms = (-1.0) ** (n + 1) * math.factorial(n), []
    if x == 0:
        return math.copysign(INF, sign * math.copysign(1.0, x) ** (n + 1))
    while x < _TERMS:
        terms.append(sign / x ** (n + 1))
        x += 1.0
    if n == 0:
        return math.fsum((*terms, math.log(x), -0.5 / x, -1 / (12 * x * x), 1 / (120 * x**4)))
    # Euler and Maclaurin: integral, half a term, first derivative, third derivative.
    s = n + 1
    rest = x ** (1 - s) / (s - 1) + 0.5 * x**-s + s / 12 * x ** (-s - 1)
    return math.fsum((*terms, sign * (rest - s * (s + 1) * (s + 2) / 720 * x ** (-s - 3))))


def _erfinv(x: float) -> float:
    if math.isnan(x) or abs(x) > 1:
        return NAN
    if abs(x) == 1:
        return math.copysign(INF, x)
    if abs(x) < 1e-8:
        return x * math.sqrt(math.pi) / 2
    size = -NormalDist().inv_cdf((1 - abs(x)) / 2) / math.sqrt(2)
    for _ in range(2):  # Newton's method, on the smaller of erf and erfc
        excess = math.erf(size) - abs(x) if abs(x) < 0.5 else (1 - abs(x)) - math.erfc(size)
        size -= excess * math.sqrt(math.pi) / 2 * math.exp(size * size)
    return math.copysign(size, x)


def _orders(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for n in (0, 1, 2, 3, 6):
        for sample in unary("positive", None)(dtype, rng):
            yield Sample(sample.label, (*sample.args, n))
        edges = [INF, -INF, NAN, -1.0, -2.0, 50.0, 1e-2, *([-0.25, -7.75] if n < 2 else [])]
        yield Sample(EDGE, (operand(edges, dtype), n))
    yield Sample(EDGE, (numbers(dtype, rng, (9,), "positive"), 12))


GAMMA = _at(0.0, 1.0, 2.0, 0.5, 7.5, 30.0, -1.0, -2.0, -7.25, 1e-3, INF, NAN)

CASES = (
    OpCase(
        "lgamma",
        unary("any", GAMMA),
        scalar(_lgamma),
        tolerance=COMPOSED,
        since=(1, 1),
        grad=SMOOTH,
    ),
    OpCase(
        "digamma",
        unary("any", GAMMA),
        scalar(lambda x: _polygamma(x, 0)),
        tolerance=COMPOSED,
        since=(1, 1),
        grad=SMOOTH,
    ),
    OpCase(
        "polygamma",
        listed(_orders),
        lambda x, n: scalar(lambda v: _polygamma(v, n))(x),
        tolerance=Tolerance(64, scale=1.0),
        since=(1, 1),
        grad=SMOOTH,
    ),
    OpCase(
        "erfinv",
        unary("unit", _at(0.0, 1.0, -1.0, 2.0, 1e-3, 0.99, -0.999, INF, NAN)),
        scalar(_erfinv),
        tolerance=Tolerance(16),
        since=(1, 1),
        grad=SMOOTH,
    ),
)
