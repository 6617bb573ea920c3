"""Rows of the elementwise primitives with two operands, of ``where`` and of ``cast``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from fl_tensor.dtypes import ALL, DType
from fl_tensor.testing.builders import BINARY_SHAPES, LAYOUTS, binary, listed
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import (
    BROADCAST,
    EDGE,
    EMPTY,
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
from fl_tensor.testing.references.exact import integers, scalar
from fl_tensor.testing.values import Shape, extremes, numbers, plane, relaid

SMOOTH = (PLAIN, ZERO_D, BROADCAST, NON_CONTIGUOUS)
ORDER = "biuf"
#: One rounding of real numbers, several of complex ones; their powers go through a logarithm.
PRODUCT = Tolerance(0, overrides={"complex64": 2, "complex128": 2})
QUOTIENT = Tolerance(1, overrides={"complex64": 8, "complex128": 8})
POWER = Tolerance(8, overrides={"complex64": 64, "complex128": 64})


def _quotients(dtype: DType) -> Sequence[float]:
    """Multiples and halves of both signs: where floor and truncation differ."""
    if dtype.is_integer:
        return [1, 2, 3, 7] if dtype.kind == "u" else [-7, -3, -2, -1, 1, 2, 3, 7]
    return [-7.5, -6.0, -2.0, -1.0, 0.5, 2.0, 2.5, 6.0, 7.5]


def _infinite(samples: Samples) -> Samples:
    """``samples``, and every pair of zeros, infinities, NaN and finite numbers of both signs."""

    def more(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        yield from samples(dtype, rng)
        if dtype.is_floating:
            values = [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan]
            x, y = zip(*itertools.product(values, repeat=2))
            yield Sample(EDGE, (operand(x, dtype), operand(y, dtype)), since=(1, 1))

    return listed(more)


def _poles(dtype: DType) -> Sequence[complex]:
    return plane(dtype) if dtype.kind == "c" else extremes(dtype)


def _powers(dtype: DType) -> Sequence[complex]:
    if dtype.kind == "c":
        return [z for z in plane(dtype) if abs(z) < 10]
    if dtype.is_integer:
        return [0, 1, 2, 3, 11]
    return [0.0, 1.0, 2.0, 0.5, 3.0, 4.0, math.nan]


def _directions(dtype: DType) -> Sequence[float]:
    return [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]


def _shifts(dtype: DType) -> Sequence[int]:
    return [0, 1, 3, 8 * dtype.itemsize - 1]


def _where(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    flags = ALL["bool"]
    for label, a, b in BINARY_SHAPES:
        condition = numbers(flags, rng, np.broadcast_shapes(a, b), "any")
        yield Sample(label, (condition, numbers(dtype, rng, a), numbers(dtype, rng, b)))
    condition = numbers(flags, rng, (2, 1))
    yield Sample(BROADCAST, (condition, numbers(dtype, rng, (3,)), numbers(dtype, rng, ())))
    for layout, shape in LAYOUTS:
        operands = [numbers(d, rng, shape) for d in (flags, dtype, dtype)]
        for i in range(3):
            laid = [relaid(x, layout) if i == j else x for j, x in enumerate(operands)]
            yield Sample(NON_CONTIGUOUS, tuple(laid))
    values = extremes(dtype)
    flip = operand([i % 2 == 0 for i in range(len(values))], flags)
    yield Sample(EDGE, (flip, operand(values, dtype), operand(values[::-1], dtype)))


_CAST_SHAPES: tuple[tuple[str, Shape], ...] = ((PLAIN, (2, 3)), (ZERO_D, ()), (EMPTY, (0, 2)))


def _cast(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    """From every dtype; the suite leaves out sources that the backend does not claim."""
    for source in ALL.values():
        if source.kind == "c" and dtype.kind != "c":
            continue  # array API: complex does not convert to real
        domain = "positive" if dtype.kind == "u" and source.kind == "f" else "any"
        for label, size in _CAST_SHAPES:
            yield Sample(label, (numbers(source, rng, size, domain), dtype))
        for layout, shape in LAYOUTS:
            yield Sample(
                NON_CONTIGUOUS, (relaid(numbers(source, rng, shape, domain), layout), dtype)
            )
        if source.is_integer or source.kind == "b":
            yield Sample(EDGE, (operand(extremes(source), source), dtype))
        elif source.is_floating and dtype.kind in "bf":
            yield Sample(EDGE, (operand(extremes(source), source), dtype))
        elif source.is_floating:
            low = [0.0, -0.0, 0.75, 1.5, 2.5] + ([] if dtype.kind == "u" else [-0.75, -1.5, -2.5])
            yield Sample(EDGE, (operand(low, source), dtype))


def _cast_reference(x: HostArray, dtype: DType) -> HostArray:
    if dtype.kind == "b":
        return x != 0
    if dtype.is_integer and x.dtype.kind == "f":
        return np.trunc(x).astype(np.int64)
    return x


CASES = (
    OpCase("add", binary(), integers(np.add), "iufc", grad=SMOOTH),
    OpCase("subtract", binary(), integers(np.subtract), "iufc", grad=SMOOTH),
    OpCase("multiply", binary(), integers(np.multiply), "iufc", tolerance=PRODUCT, grad=SMOOTH),
    OpCase(
        "divide",
        binary("nonzero", edges=_poles),
        np.divide,
        "fc",
        tolerance=QUOTIENT,
        grad=SMOOTH,
    ),
    OpCase(
        "floor_divide",
        _infinite(binary("any", "nonzero", edges=_quotients)),
        integers(np.floor_divide),
        "iuf",
    ),
    OpCase(
        "remainder",
        _infinite(binary("any", "nonzero", edges=_quotients)),
        integers(np.remainder),
        "iuf",
        tolerance=Tolerance(4, scale=4.0),
        grad=SMOOTH,
    ),
    OpCase(
        "power",
        binary("positive", "exponent", edges=_powers),
        integers(np.power),
        "iufc",
        tolerance=POWER,
        grad=SMOOTH,
    ),
    OpCase(
        "atan2",
        binary("nonzero", edges=_directions),
        scalar(math.atan2),
        tolerance=Tolerance(8),
        grad=SMOOTH,
    ),
    OpCase("maximum", binary(twin=False), np.maximum, ORDER, grad=SMOOTH),
    OpCase("minimum", binary(twin=False), np.minimum, ORDER, grad=SMOOTH),
    OpCase("equal", binary(twin=True), np.equal, ORDER + "c", result="bool"),
    OpCase("less", binary(twin=True), np.less, ORDER, result="bool"),
    OpCase("bitwise_and", binary(), np.bitwise_and, "biu"),
    OpCase("bitwise_or", binary(), np.bitwise_or, "biu"),
    OpCase("bitwise_xor", binary(), np.bitwise_xor, "biu"),
    OpCase(
        "bitwise_left_shift",
        binary("any", "shift", edges=_shifts),
        integers(np.left_shift),
        "iu",
    ),
    OpCase(
        "bitwise_right_shift",
        binary("any", "shift", edges=_shifts),
        integers(np.right_shift),
        "iu",
    ),
    OpCase("where", listed(_where), np.where, "biufc", tolerance=MOVED, grad=SMOOTH),
    OpCase("cast", listed(_cast), _cast_reference, "biufc", tolerance=MOVED, grad=SMOOTH),
)
