"""Rows of the elementwise primitives with one operand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import unary
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
from fl_tensor.testing.values import extremes

SMOOTH = (PLAIN, ZERO_D, NON_CONTIGUOUS, BROADCAST)
CLOSE = Tolerance(4)
LIBM = Tolerance(8)
#: sin and cos pass through zero at numbers that no float is: absolute error there.
PERIODIC = Tolerance(8, scale=1.0)


def _moderate(dtype: DType) -> Sequence[float]:
    return [0.0, -0.0, 1e-6, -1e-6, 20.0, -20.0, math.inf, -math.inf, math.nan]


def _roots(dtype: DType) -> Sequence[float]:
    return [0.0, 1.0, -1.0, 1e-3, 1e4, math.inf, -math.inf, math.nan]


def _logs1p(dtype: DType) -> Sequence[float]:
    return [0.0, 1e-6, -1e-6, -1.0, -2.0, 1e4, math.inf, math.nan]


def _angles(dtype: DType) -> Sequence[float]:
    return [0.0, 1e-6, math.pi, -math.pi / 2, 30.0, math.inf, math.nan]


def _halves(dtype: DType) -> Sequence[float]:
    if dtype.is_integer:
        return extremes(dtype)
    halves = [-2.5, -1.5, -0.5, -0.25, 0.0, 0.25, 0.5, 1.5, 2.5, 3.5, 1024.0, -1023.0]
    return [*halves, math.inf, -math.inf, math.nan]


CASES = (
    OpCase("negative", unary(), integers(np.negative), "iufc", grad=SMOOTH),
    OpCase("absolute", unary(), integers(np.abs), "iuf", grad=SMOOTH),
    OpCase("sign", unary(), np.sign, "iuf"),
    OpCase("exp", unary(edges=_moderate), np.exp, tolerance=LIBM, grad=SMOOTH),
    OpCase("expm1", unary(edges=_moderate), scalar(np.expm1), tolerance=LIBM, grad=SMOOTH),
    OpCase("log", unary("positive", _roots), np.log, tolerance=LIBM, grad=SMOOTH),
    OpCase("log1p", unary("positive", _logs1p), np.log1p, tolerance=LIBM, grad=SMOOTH),
    OpCase("sqrt", unary("positive", _roots), np.sqrt, tolerance=Tolerance(1), grad=SMOOTH),
    OpCase("sin", unary(edges=_angles), np.sin, tolerance=PERIODIC, grad=SMOOTH),
    OpCase("cos", unary(edges=_angles), np.cos, tolerance=PERIODIC, grad=SMOOTH),
    OpCase("tanh", unary(edges=_moderate), np.tanh, tolerance=LIBM, grad=SMOOTH),
    OpCase("erf", unary(edges=_moderate), scalar(math.erf), tolerance=LIBM, grad=SMOOTH),
    OpCase("floor", unary(edges=_halves), integers(lambda x: x, np.floor), "iuf"),
    OpCase("ceil", unary(edges=_halves), integers(lambda x: x, np.ceil), "iuf"),
    OpCase("round", unary(edges=_halves), integers(lambda x: x, np.rint), "iuf"),
    OpCase("bitwise_invert", unary(), np.invert, "biu", tolerance=EXACT),
)
