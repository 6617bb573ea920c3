"""Rows of the elementwise primitives with one operand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import unary
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import (
    BROADCAST,
    EXACT,
    NON_CONTIGUOUS,
    PLAIN,
    ZERO_D,
    OpCase,
    Tolerance,
)
from fl_tensor.testing.references.exact import integers, scalar
from fl_tensor.testing.values import extremes, plane

SMOOTH = (PLAIN, ZERO_D, NON_CONTIGUOUS, BROADCAST)
CLOSE = Tolerance(4)
LIBM = Tolerance(8)
#: Exact, or correctly rounded; of complex numbers, several roundings.
SIGN = Tolerance(0, overrides={"complex64": 4, "complex128": 4})
ROOT = Tolerance(1, overrides={"complex64": 4, "complex128": 4})
#: sin and cos pass through zero at numbers that no float is: absolute error there.
PERIODIC = Tolerance(8, scale=1.0)


def _moderate(dtype: DType) -> Sequence[complex]:
    if dtype.kind == "c":
        return extremes(dtype)
    return [0.0, -0.0, 1e-6, -1e-6, 20.0, -20.0, math.inf, -math.inf, math.nan]


def _roots(dtype: DType) -> Sequence[complex]:
    if dtype.kind == "c":
        return plane(dtype)
    return [0.0, 1.0, -1.0, 1e-3, 1e4, math.inf, -math.inf, math.nan]


def _logs1p(dtype: DType) -> Sequence[complex]:
    if dtype.kind == "c":
        return extremes(dtype)
    return [0.0, 1e-6, -1e-6, -1.0, -2.0, 1e4, math.inf, math.nan]


def _angles(dtype: DType) -> Sequence[complex]:
    if dtype.kind == "c":
        return [z for z in extremes(dtype) if abs(z) < 10]
    return [0.0, 1e-6, math.pi, -math.pi / 2, 30.0, math.inf, math.nan]


def _halves(dtype: DType) -> Sequence[complex]:
    if dtype.kind == "c":
        return [0.5 + 1.5j, -0.5 - 2.5j, 2.5 - 0.25j, 0j]
    if dtype.is_integer:
        return extremes(dtype)
    halves = [-2.5, -1.5, -0.5, -0.25, 0.0, 0.25, 0.5, 1.5, 2.5, 3.5, 1024.0, -1023.0]
    return [*halves, math.inf, -math.inf, math.nan]


def _expm1(x: HostArray) -> HostArray:
    if x.dtype.kind == "f":
        return np.asarray(scalar(np.expm1)(x))
    # exp(x + i y) - 1 without cancellation: cos(y) - 1 is -2 sin(y / 2)^2
    size, half = np.expm1(x.real), np.sin(x.imag / 2)
    return size * np.cos(x.imag) - 2 * half * half + 1j * (np.exp(x.real) * np.sin(x.imag))


def _log1p(x: HostArray) -> HostArray:
    if x.dtype.kind == "f":
        return np.asarray(np.log1p(x))
    squared = x.real * (2 + x.real) + x.imag**2
    return np.log1p(squared) / 2 + 1j * np.arctan2(x.imag, 1 + x.real)


CASES = (
    OpCase("negative", unary(), integers(np.negative), "iufc", grad=SMOOTH),
    OpCase("absolute", unary(), integers(np.abs), "iufc", "real", Tolerance(2), grad=SMOOTH),
    OpCase("sign", unary(), np.sign, "iufc", tolerance=SIGN),
    OpCase("exp", unary(edges=_moderate), np.exp, "fc", tolerance=LIBM, grad=SMOOTH),
    OpCase("expm1", unary(edges=_moderate), _expm1, "fc", tolerance=LIBM, grad=SMOOTH),
    OpCase("log", unary("positive", _roots), np.log, "fc", tolerance=LIBM, grad=SMOOTH),
    OpCase("log1p", unary("positive", _logs1p), _log1p, "fc", tolerance=LIBM, grad=SMOOTH),
    OpCase("sqrt", unary("positive", _roots), np.sqrt, "fc", tolerance=ROOT, grad=SMOOTH),
    OpCase("sin", unary(edges=_angles), np.sin, "fc", tolerance=PERIODIC, grad=SMOOTH),
    OpCase("cos", unary(edges=_angles), np.cos, "fc", tolerance=PERIODIC, grad=SMOOTH),
    OpCase("tanh", unary(edges=_moderate), np.tanh, "fc", tolerance=LIBM, grad=SMOOTH),
    OpCase("erf", unary(edges=_moderate), scalar(math.erf), tolerance=LIBM, grad=SMOOTH),
    OpCase("floor", unary(edges=_halves), integers(lambda x: x, np.floor), "iuf"),
    OpCase("ceil", unary(edges=_halves), integers(lambda x: x, np.ceil), "iuf"),
    OpCase("round", unary(edges=_halves), integers(lambda x: x, np.rint), "iufc"),
    OpCase("bitwise_invert", unary(), np.invert, "biu", tolerance=EXACT),
)
