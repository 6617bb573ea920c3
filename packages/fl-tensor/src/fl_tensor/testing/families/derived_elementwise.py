"""Rows of the derived functions of one or two numbers, of comparisons and of logic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import binary, listed, unary
from fl_tensor.testing.hostdata import LARGEST, HostArray
from fl_tensor.testing.opcase import (
    BROADCAST,
    EDGE,
    EMPTY,
    NON_CONTIGUOUS,
    PLAIN,
    ZERO_D,
    OpCase,
    Sample,
    Tolerance,
    operand,
)
from fl_tensor.testing.references.exact import integers, scalar
from fl_tensor.testing.values import extremes, numbers, plane, relaid

SMOOTH = (PLAIN, ZERO_D, BROADCAST, NON_CONTIGUOUS)
ORDERED, ANY = "biuf", "biufc"
NAN, INF = math.nan, math.inf
#: Compositions of a few primitives: some units in the last place of 1.
COMPOSED = Tolerance(16, scale=1.0)
RELATIVE = Tolerance(16)
SQUARE = Tolerance(0, overrides={"complex64": 2, "complex128": 2})


def _at(*values: float) -> Callable[[DType], Sequence[complex]]:
    def edges(dtype: DType) -> Sequence[complex]:
        if dtype.kind == "c":
            return [z for z in plane(dtype) if abs(z) < 10]
        if not dtype.is_integer:
            return values
        whole = [int(v) for v in values if math.isfinite(v) and v == int(v)]
        return [v for v in whole if v >= 0 or dtype.kind == "i"]

    return edges


def _nonfinite(dtype: DType) -> Sequence[complex]:
    if dtype.kind != "c":
        return extremes(dtype)
    large = LARGEST[dtypes.real_of(dtype).name]
    parts = (1.0, INF, -INF, NAN, large)
    return [0j, *(complex(x, y) for x in parts for y in parts)]


def _lengths(dtype: DType) -> Sequence[float]:
    half = LARGEST[dtype.name] / 2
    return [0.0, half, -half, 1.0, INF]


def _sigmoid(x: float) -> float:
    tail = math.exp(-abs(x))
    return (tail if x < 0 else 1.0) / (1.0 + tail)


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _gelu(x: float) -> float:
    return x * 0.5 * math.erfc(-x / math.sqrt(2))


def _gelu_tanh(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _gelus(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    yield from unary(edges=_at(0.0, 12.0, -12.0, NAN, INF))(dtype, rng)
    for approximate in ("none", "tanh"):
        yield Sample(PLAIN, (numbers(dtype, rng, (4,)), approximate))


def _gelu_reference(x: HostArray, approximate: str = "none") -> HostArray:
    return np.asarray(scalar(_gelu_tanh if approximate == "tanh" else _gelu)(x))


def _clips(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    low, high = (operand(v, dtype) for v in ((0, 1) if dtype.kind == "b" else (1, 3)))
    yield Sample(PLAIN, (numbers(dtype, rng, (2, 4)), low, high))
    yield Sample(PLAIN, (numbers(dtype, rng, (5,)), low, None))
    yield Sample(PLAIN, (numbers(dtype, rng, (5,)), None, high))
    yield Sample(ZERO_D, (numbers(dtype, rng, ()), low, high))
    yield Sample(EMPTY, (numbers(dtype, rng, (0, 2)), low, high))
    bounds = numbers(dtype, rng, (2, 1)), numbers(dtype, rng, (3,))
    yield Sample(BROADCAST, (numbers(dtype, rng, (2, 3)), *bounds))
    for layout in ("permuted", "stepped", "reversed"):
        yield Sample(NON_CONTIGUOUS, (relaid(numbers(dtype, rng, (2, 3)), layout), low, high))
    if dtype.is_floating:
        yield Sample(EDGE, (operand([NAN, INF, -INF, 2.0, 1.0], dtype), low, high))


def _clip(x: HostArray, low: HostArray | None, high: HostArray | None) -> HostArray:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _logic(function: Callable[..., HostArray]) -> Callable[..., HostArray]:
    return lambda *xs: function(*(x != 0 for x in xs))


FUNCTIONS = (
    OpCase(
        "square",
        unary(edges=_at(0.0, -0.5, 3.0)),
        integers(lambda x: x * x),
        "iufc",
        tolerance=SQUARE,
        grad=SMOOTH,
    ),
    OpCase(
        "reciprocal",
        unary("nonzero", _at(0.0, -0.0, INF, 2.0, NAN)),
        lambda x: 1 / x,
        "fc",
        tolerance=Tolerance(8),
        grad=SMOOTH,
    ),
    OpCase(
        "rsqrt",
        unary("positive", _at(0.0, 4.0, -1.0, INF, NAN)),
        lambda x: 1 / np.sqrt(x),
        "fc",
        tolerance=Tolerance(8),
        grad=SMOOTH,
    ),
    OpCase(
        "sigmoid",
        unary(edges=_at(0.0, 1000.0, -1000.0, INF, -INF, NAN, -9.0)),
        scalar(_sigmoid),
        tolerance=RELATIVE,
        grad=SMOOTH,
    ),
    OpCase(
        "silu",
        unary(edges=_at(0.0, 1000.0, -1000.0, INF, NAN)),
        scalar(lambda x: x * _sigmoid(x)),
        tolerance=RELATIVE,
        grad=SMOOTH,
    ),
    OpCase(
        "relu",
        unary(edges=_at(0.0, -1.0, INF, -INF, NAN)),
        integers(lambda x: np.maximum(x, 0)),
        "iuf",
        grad=SMOOTH,
    ),
    OpCase("gelu", listed(_gelus), _gelu_reference, tolerance=COMPOSED, grad=SMOOTH),
    OpCase(
        "softplus",
        unary(edges=_at(0.0, 1000.0, -1000.0, INF, -INF, NAN)),
        scalar(_softplus),
        tolerance=COMPOSED,
        grad=SMOOTH,
    ),
    OpCase(
        "tan",
        unary("unit", _at(0.0, 1e-3, INF, NAN)),
        np.tan,
        "fc",
        tolerance=COMPOSED,
        grad=SMOOTH,
    ),
    OpCase(
        "asin",
        unary("unit", _at(0.0, 1.0, -1.0, 1e-3, 2.0, NAN)),
        np.arcsin,
        "fc",
        tolerance=COMPOSED,
        grad=SMOOTH,
    ),
    OpCase(
        "acos",
        unary("unit", _at(0.0, 1.0, -1.0, 2.0, NAN)),
        np.arccos,
        "fc",
        tolerance=COMPOSED,
        grad=SMOOTH,
    ),
    OpCase(
        "atan",
        unary(edges=_at(0.0, 1e-3, INF, -INF, NAN)),
        np.arctan,
        "fc",
        tolerance=COMPOSED,
        grad=SMOOTH,
    ),
    OpCase(
        "sinh",
        unary(edges=_at(0.0, 1e-3, -1e-3, 30.0, INF, -INF, NAN)),
        np.sinh,
        "fc",
        tolerance=Tolerance(32),
        grad=SMOOTH,
    ),
    OpCase(
        "cosh",
        unary(edges=_at(0.0, 1e-3, 30.0, -30.0, INF, -INF, NAN)),
        np.cosh,
        "fc",
        tolerance=Tolerance(32),
        grad=SMOOTH,
    ),
    OpCase(
        "asinh",
        unary(edges=_at(0.0, 1e-3, -1e3, INF, -INF, NAN)),
        np.arcsinh,
        "fc",
        tolerance=RELATIVE,
        grad=SMOOTH,
    ),
    OpCase(
        "acosh",
        unary("above_one", _at(1.0, 0.5, 1e3, INF, NAN)),
        np.arccosh,
        "fc",
        tolerance=RELATIVE,
        grad=SMOOTH,
    ),
    OpCase(
        "atanh",
        unary("unit", _at(0.0, 1e-3, 1.0, -1.0, 2.0, NAN)),
        np.arctanh,
        "fc",
        tolerance=RELATIVE,
        grad=SMOOTH,
    ),
    OpCase(
        "log2",
        unary("positive", _at(0.0, 1.0, 8.0, -1.0, INF, NAN)),
        np.log2,
        "fc",
        tolerance=RELATIVE,
        grad=SMOOTH,
    ),
    OpCase(
        "log10",
        unary("positive", _at(0.0, 1.0, 100.0, -1.0, INF, NAN)),
        np.log10,
        "fc",
        tolerance=RELATIVE,
        grad=SMOOTH,
    ),
    OpCase(
        "exp2",
        unary(edges=_at(0.0, 10.0, -10.0, 0.5, INF, -INF, NAN)),
        np.exp2,
        "fc",
        tolerance=RELATIVE,
        grad=SMOOTH,
    ),
    OpCase(
        "hypot",
        binary("nonzero", edges=_lengths),
        scalar(math.hypot),
        tolerance=Tolerance(8),
        grad=SMOOTH,
    ),
    OpCase("clip", listed(_clips), _clip, ORDERED, grad=SMOOTH),
)

COMPARISONS = (
    OpCase("not_equal", binary(twin=True), np.not_equal, ANY, result="bool"),
    OpCase("less_equal", binary(twin=True), np.less_equal, ORDERED, result="bool"),
    OpCase("greater", binary(twin=True), np.greater, ORDERED, result="bool"),
    OpCase("greater_equal", binary(twin=True), np.greater_equal, ORDERED, result="bool"),
    OpCase("isnan", unary(edges=_nonfinite), np.isnan, ANY, result="bool"),
    OpCase("isinf", unary(edges=_nonfinite), np.isinf, ANY, result="bool"),
    OpCase("isfinite", unary(edges=_nonfinite), np.isfinite, ANY, result="bool"),
    OpCase("logical_not", unary(), _logic(np.logical_not), ANY, result="bool"),
    OpCase("logical_and", binary(), _logic(np.logical_and), ANY, result="bool"),
    OpCase("logical_or", binary(), _logic(np.logical_or), ANY, result="bool"),
    OpCase("logical_xor", binary(), _logic(np.logical_xor), ANY, result="bool"),
)

CASES = FUNCTIONS + COMPARISONS
