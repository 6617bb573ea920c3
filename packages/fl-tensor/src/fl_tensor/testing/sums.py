"""Samples that reveal inaccurate sums."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fl_tensor.dtypes import HALF, DType
from fl_tensor.testing.builders import listed
from fl_tensor.testing.hostdata import EPSILON
from fl_tensor.testing.opcase import MANY, Operand, Sample, Samples, operand
from fl_tensor.testing.values import Shape


def many(dtype: DType, shape: Shape) -> Operand:
    """Equal elements, slightly above 1. Some hundreds are added exactly. Of thousands that are
    added one after the other, the last ones lose a part each: hundreds of epsilons in all."""
    return operand(np.full(shape, _unit(dtype) * (1 + 896 * EPSILON[dtype.name])), dtype)


def nearly_equal(dtype: DType, shape: Shape) -> Operand:
    """Neighbouring floating numbers, of which the exact mean is none: 0, 0, 1, 0, 0, 1, ... steps
    of 128 above ``128 / epsilon``. Distances from a rounded mean give variances 50 % too large."""
    steps = np.arange(math.prod(shape)).reshape(shape) % 3 == 2
    return operand(_unit(dtype) * 128 * (1 / EPSILON[dtype.name] + steps), dtype)


def _unit(dtype: DType) -> complex:
    return 1 + 1j if dtype.kind == "c" else 1


#: Shapes of many elements along an axis, and that axis.
MANY_ALONG: tuple[tuple[Shape, int], ...] = (
    ((4096, 2), 0),
    ((2, 4096), 1),
    ((2, 4096, 3), 1),
)


def many_along(base: Samples, running: bool = False) -> Samples:
    """``base``, and ``op(x, axis)`` of many elements of 32 bits and more; an operation that is
    ``running`` takes one axis, and 64 bits are its reference's."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        yield from base(dtype, rng)
        if dtype.kind not in "fc" or dtype in HALF or (running and EPSILON[dtype.name] < 1e-10):
            return
        for shape, axis in MANY_ALONG:
            yield Sample(MANY, (many(dtype, shape), axis if running else (axis,)))

    return listed(samples)
