"""Elementary functions that NumPy lacks, or computes less accurately."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, TypeAlias

import numpy as np

Float64: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

_STEP = 1.0 / 128
_END = 6.0  # erf(6) is 1 in float64


@cache
def _table() -> tuple[Float64, Float64]:
    points = np.arange(int(_END / _STEP) + 1) * _STEP
    values = np.array([math.erf(p) for p in points])
    slopes = 2.0 / math.sqrt(math.pi) * np.exp(-points * points)
    return values, slopes


def erf(x: np.ndarray[Any, Any]) -> Float64:
    """erf in float64, to about 2 units in the last place: Taylor's series around the nearest point
    of a table.

    With t the nearest table point and d = |x| - t, at most 1/256: six terms of the series, whose
    derivatives are 2/sqrt(pi) exp(-t^2) times Hermite polynomials of t.
    """
    values, slopes = _table()
    a = np.minimum(np.abs(x.astype(np.float64, copy=False)), _END)
    index = np.rint(np.nan_to_num(a) / _STEP).astype(np.intp)
    t = index * _STEP
    d = a - t
    t2 = t * t
    series = 1 + d / 2 * (
        -2 * t
        + d / 3 * (4 * t2 - 2 + d / 4 * (t * (12 - 8 * t2) + d / 5 * (16 * t2 * t2 - 48 * t2 + 12)))
    )
    return np.copysign(values[index] + slopes[index] * d * series, x)


def log1p(z: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """log(1 + z) of complex numbers. NumPy's adds 1 first, which loses a small z."""
    x, y = z.real, z.imag
    # |1 + z|^2 = 1 + x (2 + x) + y^2, and log1p of that is accurate where z is small.
    near = np.log1p(x * (2 + x) + y * y) / 2
    far = np.log(np.hypot(1 + x, y))
    out = np.empty_like(z)
    out.real = np.where(np.maximum(np.abs(x), np.abs(y)) < 0.5, near, far)
    out.imag = np.arctan2(y, 1 + x)
    return out


def expm1(z: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """exp(z) - 1 of complex numbers. NumPy's has NaNs where a part is infinite."""
    out = np.where(np.isfinite(z), np.expm1(z), np.exp(z) - 1)
    out.real += 0.0  # -0 becomes 0
    return out


def tanh(z: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """tanh of complex numbers. At real infinities the imaginary part is a zero of the sign of
    z's, as the array API standard has it; NumPy's has the sign of sin(2 imag z)."""
    out = np.asarray(np.tanh(z))
    far = np.isinf(z.real) & np.isfinite(z.imag)
    out.imag = np.where(far, np.copysign(0.0, z.imag), out.imag)
    return out
