"""The polynomials of ``fl_jit.kernels.codegen``: prints its ``coefficients.py``.

    python tools/minimax.py > backends/fl-jit/src/fl_jit/kernels/codegen/coefficients.py

Each is the polynomial of its degree with the smallest weighted error on an interval, found by the
exchange algorithm of Remez (1934) in 50 digits. Needs mpmath.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from mpmath import mp, mpf

mp.dps = 50
Function = Callable[[Any], Any]


class Fit(NamedTuple):
    """``function`` on [low, high] by a polynomial; its error there times ``weight`` is what counts
    as an error of the result, relative to 1."""

    name: str
    about: str
    function: Function
    weight: Function
    low: Any
    high: Any
    degrees: dict[int, int]  # bits of the floating type: degree


def _series(first: int, sign: int, scale: int = 2) -> Function:
    # scale * (1/k +- z/(k+2) + z^2/(k+4) ...) from k = first: atanh, atan without leading terms.
    def total(z: Any) -> Any:
        return mp.nsum(lambda n: scale * mpf(sign) ** n * z**n / (first + 2 * n), [0, mp.inf])

    return total


def _quotient(function: Function, terms: int, step: int, at_zero: Function) -> Function:
    # (function(x) - its first terms) / x^terms as a function of z; near 0 by the Taylor series.
    coefficients = mp.taylor(at_zero, 0, 40)[terms::step]

    def value(z: Any) -> Any:
        if abs(z) < mpf("1e-3"):
            return mp.polyval(coefficients[::-1], z)
        return function(z)

    return value


def _exp_tail(r: Any) -> Any:
    return (mp.expm1(r) - r) / r**2


def _tanh_tail(s: Any) -> Any:
    v = mp.sqrt(s)
    return (mp.tanh(v) - v) / (v * s)


def _sin_tail(z: Any) -> Any:
    x = mp.sqrt(z)
    return (mp.sin(x) - x) / (x * z)


def _cos_tail(z: Any) -> Any:
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def _erf_tail(z: Any) -> Any:
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1 if z else 2 / mp.sqrt(mp.pi) - 1


def _erfc_exponent(end: Any) -> Function:
    return lambda t: -mp.log(mp.erfc(_far(t, end)))


def _erfc_at(end: Any) -> Function:
    return lambda t: mp.erfc(_far(t, end))


def _far(t: Any, end: Any) -> Any:
    return (1 + end) / mpf(2) + t * (end - 1) / mpf(2)


HALF_LN2 = mp.log(2) / 2 * mpf("1.0001")
QUARTER_PI = mp.pi / 4 * mpf("1.0001")
LOG_END = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mpf("1.001")
ATAN_END = (mp.sqrt(2) - 1) ** 2 * mpf("1.001")

FITS = [
    Fit(
        "EXP",
        "(exp(r) - 1 - r) / r^2 for |r| <= log(2) / 2",
        _quotient(_exp_tail, 2, 1, mp.exp),
        lambda r: r**2 / mp.exp(r),
        -HALF_LN2,
        HALF_LN2,
        {32: 4, 64: 9},
    ),
    Fit(
        "LOG",
        "(2 atanh(s) - 2 s) / s^3 as a function of s^2, for |s| <= (sqrt(2) - 1) / (sqrt(2) + 1)",
        _series(3, 1),
        lambda z: z / 2,
        mpf(0),
        LOG_END,
        {32: 2, 64: 6},
    ),
    Fit(
        "LOG_LOW",
        "(2 atanh(s) - 2 s - 2/3 s^3) / s^5 as a function of s^2, for the same s",
        _series(5, 1),
        lambda z: z**2 / 2,
        mpf(0),
        LOG_END,
        {64: 6},
    ),
    Fit(
        "ATAN",
        "(atan(t) - t) / t^3 as a function of t^2, for |t| <= sqrt(2) - 1",
        lambda z: -_series(3, -1, 1)(z),
        lambda z: z,
        mpf(0),
        ATAN_END,
        {32: 4, 64: 10},
    ),
    Fit(
        "TANH",
        "(tanh(v) - v) / v^3 as a function of v^2, for |v| <= log(2) / 4",
        _quotient(_tanh_tail, 3, 2, mp.tanh),
        lambda s: s * (1 + 30 * s),  # at the ends roundings of what follows are added
        mpf(0),
        (HALF_LN2 / 2) ** 2,
        {32: 1, 64: 5},
    ),
    Fit(
        "SIN",
        "(sin(r) - r) / r^3 as a function of r^2, for |r| <= pi / 4",
        lambda z: _sin_tail(z) if z > mpf("1e-8") else mpf(-1) / 6 + z / 120,
        lambda z: z,
        mpf(0),
        QUARTER_PI**2,
        {32: 2, 64: 5},
    ),
    Fit(
        "COS",
        "(cos(r) - 1 + r^2 / 2) / r^4 as a function of r^2, for |r| <= pi / 4",
        lambda z: _cos_tail(z) if z > mpf("1e-8") else mpf(1) / 24 - z / 720,
        lambda z: z**2,
        mpf(0),
        QUARTER_PI**2,
        {32: 2, 64: 5},
    ),
    Fit(
        "ERF",
        "erf(x) / x - 1 as a function of x^2, for |x| <= 1",
        _erf_tail,
        lambda z: mpf(1),
        mpf(0),
        mpf("1.001"),
        {32: 6, 64: 11},
    ),
    *(
        Fit(
            "ERFC_EXPONENT",
            f"-log(1 - erf(x)) as a function of t, for x = {(1 + end) / 2} + {(end - 1) / 2} t, "
            f"1 <= x <= {end}",
            _erfc_exponent(mpf(end)),
            _erfc_at(mpf(end)),
            mpf(-1),
            mpf(1),
            {bits: degree},
        )
        for bits, end, degree in ((32, 4, 6), (64, 6, 17))
    ),
]


def remez(fit: Fit, degree: int) -> tuple[list[Any], Any]:
    """Coefficients from the constant upwards, and the largest weighted error."""
    count = degree + 2
    middle, half = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
    nodes = [middle - half * mp.cos(mp.pi * (i + mpf("0.5")) / count) for i in range(count)]
    grid = [middle - half * mp.cos(mp.pi * i / (40 * count)) for i in range(40 * count + 1)]
    values = [fit.function(x) for x in grid]
    weights = [fit.weight(x) for x in grid]
    coefficients: list[Any] = []
    for _ in range(12):
        system, right = mp.matrix(count, count), mp.matrix(count, 1)
        for i, x in enumerate(nodes):
            weight = max(fit.weight(x), mpf("1e-30"))
            for j in range(degree + 1):
                system[i, j] = x**j
            system[i, degree + 1] = mpf(-1) ** i / weight
            right[i] = fit.function(x)
        coefficients = list(mp.lu_solve(system, right))[: degree + 1]
        errors = [
            (mp.polyval(coefficients[::-1], x) - v) * w for x, v, w in zip(grid, values, weights)
        ]
        peaks = _peaks(errors, count)
        if len(peaks) < count:
            break
        moved = [grid[i] for i in peaks]
        if max(abs(a - b) for a, b in zip(moved, nodes)) < half * mpf("1e-6"):
            break
        nodes = moved
    return coefficients, max(abs(e) for e in errors)


def _peaks(errors: list[Any], count: int) -> list[int]:
    # The largest error of each stretch of one sign; the outermost smaller one goes if too many.
    found: list[int] = []
    for i, e in enumerate(errors):
        if not e:
            continue
        if found and (errors[found[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[found[-1]]):
                found[-1] = i
        else:
            found.append(i)
    while len(found) > count:
        found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
    return found


HEADER = '''\
"""Minimax polynomials, constant term first; generated by ``tools/minimax.py``.

Keys are the bits of the floating type. Errors are those of the function that the polynomial serves,
relative to its value.
"""

Polynomial = dict[int, tuple[float, ...]]

# fmt: off
'''


def main() -> None:
    print(HEADER)
    tables: dict[str, list[tuple[Fit, int, list[Any], Any]]] = {}
    for fit in FITS:
        for bits, degree in fit.degrees.items():
            tables.setdefault(fit.name, []).append((fit, bits, *remez(fit, degree)))
    for name, rows in tables.items():
        for about in dict.fromkeys(fit.about for fit, *_ in rows):
            print(f"#: {about}.")
        print(f"{name}: Polynomial = {{")
        for _, bits, coefficients, error in rows:
            print(f"    # error {mp.nstr(error, 2)}")
            print(f"    {bits}: (")
            numbers = " ".join(f"{float(c)!r}," for c in coefficients)
            print(textwrap.indent(textwrap.fill(numbers, 92), " " * 8))
            print("    ),")
        print("}\n")


if __name__ == "__main__":
    main()
