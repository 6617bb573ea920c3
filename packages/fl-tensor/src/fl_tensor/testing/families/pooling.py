"""Rows of pooling and of its gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import listed
from fl_tensor.testing.opcase import (
    EDGE,
    EMPTY,
    NON_CONTIGUOUS,
    PLAIN,
    OpCase,
    Operand,
    Sample,
    Samples,
    Tolerance,
    operand,
)
from fl_tensor.testing.references import windows
from fl_tensor.testing.values import numbers, relaid

REAL = "iuf"
SUMMED = Tolerance(8, scale=8.0)
LAYOUTS = ("permuted", "stepped", "reversed")
#: label, x, window, stride, padding
_POOLS = (
    (PLAIN, (2, 2, 4, 5), (2, 2), (2, 2), ((0, 0), (0, 0))),
    (PLAIN, (1, 2, 5), (3,), (2,), ((1, 1),)),
    (PLAIN, (1, 1, 4, 4), (3, 2), (1, 2), ((1, 2), (0, 1))),
    (EDGE, (1, 1, 3), (1,), (2,), ((0, 0),)),
    (EMPTY, (0, 2, 4), (2,), (2,), ((0, 0),)),
)


def _pools(*variants: tuple[bool, ...]) -> Samples:
    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        for label, shape, *args in _POOLS:
            x = numbers(dtype, rng, shape, "distinct")
            for extra in variants:
                yield Sample(label, (x, *args, *extra))
        for layout in LAYOUTS:
            x = relaid(numbers(dtype, rng, (1, 2, 4, 3), "distinct"), layout)
            yield Sample(NON_CONTIGUOUS, (x, (2, 2), (1, 1), ((1, 0), (0, 1))))
        if dtype.is_floating:
            special = operand([[[1.0, float("nan"), 2.0, -float("inf")]]], dtype)
            yield Sample(EDGE, (special, (2,), (2,), ((0, 0),)))

    return listed(samples)


def _max_gradients(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    def row(label: str, x: Operand, *args: Any, layout: str = "contiguous") -> Sample:
        gradient = numbers(dtype, rng, windows.max_pool(x.values, *args).shape)
        return Sample(label, (relaid(gradient, layout), relaid(x, layout), *args))

    for label, shape, *args in _POOLS:
        yield row(label, numbers(dtype, rng, shape, "distinct"), *args)
    window = (2, 2), (1, 1), ((1, 0), (0, 1))
    for layout in LAYOUTS:
        x = numbers(dtype, rng, (1, 2, 4, 3), "distinct")
        yield row(NON_CONTIGUOUS, x, *window, layout=layout)
    for ties in ([[[1, 1, 1, 0, 0]]], [[[1, float("nan"), 2, -float("inf"), -float("inf")]]]):
        yield row(EDGE, operand(ties, dtype), (2,), (1,), ((1, 1),))


def _avg_gradients(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for label, shape, *args in _POOLS:
        sizes = windows.avg_pool(np.zeros(shape), *args).shape
        for inside in (True, False):
            yield Sample(label, (numbers(dtype, rng, sizes), shape, *args, inside))
    for layout in LAYOUTS:
        gradient = relaid(numbers(dtype, rng, (1, 2, 4, 3)), layout)
        yield Sample(
            NON_CONTIGUOUS, (gradient, (1, 2, 4, 3), (2, 2), (1, 1), ((1, 0), (0, 1)), True)
        )


CASES = (
    OpCase("max_pool", _pools(()), windows.max_pool, REAL, grad=(PLAIN, NON_CONTIGUOUS)),
    OpCase(
        "avg_pool",
        _pools((True,), (False,)),
        windows.avg_pool,
        "fc",
        tolerance=SUMMED,
        grad=(PLAIN, NON_CONTIGUOUS),
    ),
    OpCase(
        "max_pool_gradient",
        listed(_max_gradients),
        windows.max_pool_gradient,
        tolerance=SUMMED,
        grad=(PLAIN, NON_CONTIGUOUS),
        since=(1, 1),
    ),
    OpCase(
        "avg_pool_gradient",
        listed(_avg_gradients),
        windows.avg_pool_gradient,
        tolerance=SUMMED,
        since=(1, 1),
        grad=(PLAIN, NON_CONTIGUOUS),
    ),
)
