"""Rows of signs, neighbours and special values, and of closeness."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import BINARY_SHAPES, LAYOUTS, UNARY_SHAPES, binary, listed, unary
from fl_tensor.testing.hostdata import LARGEST, HostArray
from fl_tensor.testing.opcase import (
    BROADCAST,
    EDGE,
    MOVED,
    NON_CONTIGUOUS,
    PLAIN,
    ZERO_D,
    OpCase,
    Sample,
    Samples,
    Tolerance,
    operand,
)
from fl_tensor.testing.values import extremes, numbers, relaid

ORDERED = "biuf"
SMOOTH = (PLAIN, ZERO_D, BROADCAST, NON_CONTIGUOUS)
NAN, INF = math.nan, math.inf
RELATIVE = Tolerance(16)
COMPOSED = Tolerance(16, scale=1.0)


def _at(*values: float) -> Callable[[DType], Sequence[float]]:
    return lambda dtype: values


def _halves(dtype: DType) -> Sequence[Any]:
    if not dtype.is_floating:
        return extremes(dtype)
    return [*extremes(dtype), 0.5, -0.5, 1.5, -1.5, -0.0, 2.0**20 + 0.5]


def _neighbours() -> Samples:
    """Pairs whose results are normal numbers: backends may have no others."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        yield from (s for s in binary()(dtype, rng) if s.label != EDGE)
        powers = [2.0**e for e in (-125, -103, -102, -101, -1, 0, 1, 24, 127)]
        ends = [*powers, *(-p for p in powers), 1.5, LARGEST["float32"], INF, -INF, NAN]
        pairs = [(x, y) for x in ends for y in (*ends, 0.0, -0.0)]
        pairs += [(x, y) for x in (0.0, -0.0) for y in (0.0, -0.0, NAN)]
        yield Sample(EDGE, tuple(operand(values, dtype) for values in zip(*pairs, strict=True)))

    return listed(samples)


def _next(x: HostArray, y: HostArray) -> HostArray:
    return np.nextafter(x.astype(np.float32), y.astype(np.float32))


def _close() -> Samples:
    """Pairs that are equal, near or far, with room on both sides of the tolerance."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        for label, a, b in BINARY_SHAPES:
            x = numbers(dtype, rng, a, "above_one")
            y = numbers(dtype, rng, b, "above_one")
            if a == b:
                y = operand(x.values * rng.choice([1.0, 1.25], a, p=[0.8, 0.2]), dtype)
            for rtol, atol in ((0.125, 0.0), (0.0, 0.25)):
                yield Sample(label, (x, y, rtol, atol))
            if a == b:
                yield Sample(label, (x, x))
        for layout, shape in LAYOUTS:
            x = relaid(numbers(dtype, rng, shape), layout)
            yield Sample(NON_CONTIGUOUS, (x, operand(x.values, dtype)))
        special = [0.0, -0.0, 1.0, INF, -INF, NAN]
        for equal_nan in (False, True):
            same = operand(special, dtype)
            yield Sample(EDGE, (same, same, 1e-3, 1e-3, equal_nan))
            every = operand([[v] for v in special], dtype)
            yield Sample(EDGE, (every, same, 1e-3, 1e-3, equal_nan))

    return listed(samples)


def _isclose(
    x: HostArray, y: HostArray, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> HostArray:
    return np.asarray(np.isclose(x, y, rtol, atol, equal_nan))


def _equal_pairs(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for label, a, b in BINARY_SHAPES:
        x = numbers(dtype, rng, a)
        yield Sample(label, (x, numbers(dtype, rng, b)))
        yield Sample(label, (x, x))
    for layout, shape in LAYOUTS:
        x = relaid(numbers(dtype, rng, shape), layout)
        yield Sample(NON_CONTIGUOUS, (x, operand(x.values, dtype)))
    if dtype.is_floating:
        for equal_nan in (False, True):
            x = operand([NAN, 1.0], dtype)
            yield Sample(EDGE, (x, x, equal_nan))


def _array_equal(x: HostArray, y: HostArray, equal_nan: bool = False) -> HostArray:
    return np.asarray(np.array_equal(x, y, equal_nan))


def _replacements(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    # With both limits given: the default ones differ by dtype, which a reference does not know.
    for label, shape in UNARY_SHAPES:
        yield Sample(label, (numbers(dtype, rng, shape), 0.0, 8.0, -8.0))
    for layout, shape in LAYOUTS:
        yield Sample(NON_CONTIGUOUS, (relaid(numbers(dtype, rng, shape), layout),))
    if dtype.is_floating:
        yield Sample(EDGE, (operand([NAN, INF, -INF, 1.0, -0.0], dtype), 0.5, 8.0, -8.0))


def _nan_to_num(
    x: HostArray, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> HostArray:
    return np.asarray(np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf))


def _limits(function: Any) -> Callable[[HostArray], HostArray]:
    return lambda x: np.asarray(function(x.astype(np.float64)))


CASES = (
    OpCase(
        "trunc", unary(edges=_halves), lambda x: x if x.dtype.kind != "f" else np.trunc(x), "iuf"
    ),
    OpCase(
        "signbit",
        unary(edges=_at(0.0, -0.0, 1.0, -1.0, INF, -INF, 1e-4)),
        np.signbit,
        result="bool",
    ),
    OpCase("copysign", binary(), np.copysign, tolerance=MOVED, grad=SMOOTH),
    OpCase(
        "nextafter",
        _neighbours(),
        _next,
        only=("float32",),
        tolerance=Tolerance(0, signed=True),
    ),
    OpCase("isposinf", unary(), _limits(np.isposinf), ORDERED, result="bool"),
    OpCase("isneginf", unary(), _limits(np.isneginf), ORDERED, result="bool"),
    OpCase("fmax", binary(twin=True), np.fmax, ORDERED, grad=(PLAIN, ZERO_D, BROADCAST)),
    OpCase("fmin", binary(twin=True), np.fmin, ORDERED, grad=(PLAIN, ZERO_D, BROADCAST)),
    OpCase("nan_to_num", listed(_replacements), _nan_to_num, ORDERED, grad=SMOOTH),
    OpCase("isclose", _close(), _isclose, "fc", result="bool"),
    OpCase("allclose", _close(), lambda *xs: np.all(_isclose(*xs)), "fc", result="bool"),
    OpCase("array_equal", listed(_equal_pairs), _array_equal, ORDERED + "c", result="bool"),
    OpCase(
        "cbrt",
        unary("nonzero", _at(0.0, -0.0, 27.0, -8.0, 1e-4, INF, -INF, NAN)),
        np.cbrt,
        tolerance=Tolerance(4),
        grad=SMOOTH,
    ),
    OpCase(
        "logaddexp",
        binary(edges=_at(0.0, 1000.0, -1000.0, INF, -INF, NAN)),
        np.logaddexp,
        tolerance=COMPOSED,
        grad=SMOOTH,
    ),
    OpCase(
        "logit",
        unary("probability", _at(0.0, 1.0, 0.5, -1.0, 2.0, NAN)),
        lambda x: np.log(x) - np.log1p(-x),
        tolerance=COMPOSED,
        grad=SMOOTH,
    ),
    OpCase(
        "deg2rad",
        unary(edges=_at(0.0, 180.0, -90.0, INF, NAN)),
        np.deg2rad,
        tolerance=Tolerance(2),
        grad=SMOOTH,
    ),
    OpCase(
        "rad2deg",
        unary(edges=_at(0.0, 1.0, -3.0, INF, NAN)),
        np.rad2deg,
        tolerance=Tolerance(2),
        grad=SMOOTH,
    ),
)
