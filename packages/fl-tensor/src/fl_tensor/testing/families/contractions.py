"""Rows of products, convolution and its gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import listed
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import (
    BROADCAST,
    EDGE,
    EMPTY,
    LONG,
    NON_CONTIGUOUS,
    PLAIN,
    OpCase,
    Sample,
    Samples,
    Tolerance,
)
from fl_tensor.testing.references import windows
from fl_tensor.testing.references.exact import integers
from fl_tensor.testing.values import Shape, numbers, relaid

NUMBERS = "iufc"
SMOOTH = (PLAIN, BROADCAST, NON_CONTIGUOUS, EDGE)
SUMMED = Tolerance(8, scale=8.0)
SUMMED_LONG = Tolerance(8, scale=32.0)  # of more than a hundred products
PRODUCT = Tolerance(0, overrides={"complex64": 2, "complex128": 2})
LAYOUTS = ("permuted", "stepped", "reversed")

_MATMULS = (
    (PLAIN, (2, 3), (3, 4)),
    (PLAIN, (1, 1), (1, 1)),
    (PLAIN, (2, 2, 3), (2, 3, 2)),
    (BROADCAST, (2, 1, 2, 3), (3, 3, 2)),
    (BROADCAST, (2, 3), (2, 3, 1)),
    (EMPTY, (0, 3), (3, 2)),
    (EMPTY, (2, 0), (0, 3)),
    (EMPTY, (0, 2, 3), (1, 3, 2)),
    (LONG, (5, 19), (19, 9)),
)
_DOTS = (
    (PLAIN, (3,), (3,)),
    (PLAIN, (2, 3), (2, 3)),
    (BROADCAST, (2, 1, 3), (4, 3)),
    (EMPTY, (0,), (0,)),
    (EMPTY, (0, 3), (0, 3)),
)
_OUTERS = ((PLAIN, (2,), (3,)), (EMPTY, (0,), (2,)))
_LINEARS: tuple[tuple[str, tuple[Shape, ...]], ...] = (
    (PLAIN, ((2, 3), (4, 3), (4,))),
    (PLAIN, ((2, 2, 3), (4, 3))),
    (PLAIN, ((3,), (2, 3), (2,))),
    (EMPTY, ((0, 3), (2, 3), (2,))),
    (EMPTY, ((2, 0), (3, 0), (3,))),
)
#: label, x, w, stride, padding, input dilation, kernel dilation, groups
_CONVS = (
    (PLAIN, (2, 2, 5), (3, 2, 3), (1,), ((0, 0),), (1,), (1,), 1),
    (PLAIN, (1, 2, 4, 5), (2, 2, 2, 3), (2, 1), ((1, 0), (1, 2)), (1, 1), (1, 1), 1),
    (PLAIN, (2, 4, 5), (6, 2, 2), (1,), ((1, 1),), (1,), (1,), 2),
    (PLAIN, (1, 3, 4, 4), (3, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 3),
    (PLAIN, (1, 1, 4, 4), (2, 1, 2, 2), (1, 2), ((0, 1), (2, 0)), (2, 3), (2, 1), 1),
    (PLAIN, (1, 2, 3, 3, 3), (2, 2, 2, 2, 2), (1, 1, 2), ((0, 0),) * 3, (1,) * 3, (1,) * 3, 1),
    (PLAIN, (1, 1, 2, 3, 2, 3), (2, 1, 2, 2, 1, 2), (1,) * 4, ((1, 0),) * 4, (1,) * 4, (1,) * 4, 1),
    (EDGE, (1, 1, 7), (1, 1, 2), (2,), ((-1, -2),), (1,), (1,), 1),
    (EDGE, (1, 2, 5), (2, 1, 2), (1,), ((-1, 2),), (2,), (3,), 2),
    (EDGE, (1, 1, 5, 4), (1, 1, 2, 2), (1, 1), ((2, -1), (-1, 1)), (1, 2), (2, 1), 1),
    (EDGE, (2, 2, 1), (2, 2, 1), (3,), ((0, 0),), (1,), (1,), 1),
    (EMPTY, (0, 2, 5), (3, 2, 3), (1,), ((0, 0),), (1,), (1,), 1),
    (LONG, (2, 3, 9, 8), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1),
    (EMPTY, (1, 0, 4), (2, 0, 2), (1,), ((0, 0),), (1,), (1,), 1),
)


def _pairs(rows: tuple[tuple[str, Shape, Shape], ...], laid: tuple[Shape, Shape]) -> Samples:
    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        def value(shape: Shape) -> object:
            return numbers(dtype, rng, shape, "near_one")

        for label, a, b in rows:
            yield Sample(label, (value(a), value(b)))
        for layout in LAYOUTS:
            x, y = (numbers(dtype, rng, shape, "near_one") for shape in laid)
            yield Sample(NON_CONTIGUOUS, (relaid(x, layout), y))
            yield Sample(NON_CONTIGUOUS, (x, relaid(y, layout)))

    return listed(samples)


def _convs(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for label, x, w, *options in _CONVS:
        pair = (numbers(dtype, rng, x, "near_one"), numbers(dtype, rng, w, "near_one"))
        yield Sample(label, (*pair, *options))
    for layout in LAYOUTS:
        x_, w_ = numbers(dtype, rng, (1, 2, 4, 3)), numbers(dtype, rng, (2, 2, 2, 2), "near_one")
        args = ((1, 1), ((1, 0), (0, 0)), (1, 1), (1, 1), 1)
        yield Sample(NON_CONTIGUOUS, (relaid(x_, layout), w_, *args))
        yield Sample(NON_CONTIGUOUS, (x_, relaid(w_, layout), *args))


def _conv_gradients(of_data: bool) -> Samples:
    """Gradients of the rows of ``conv``: of their images, or of their weights."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        def row(label: str, x: Shape, w: Shape, *options: Any, layout: str = "") -> Sample:
            gradient = windows.conv(np.zeros(x, bool), np.zeros(w, bool), *options).shape
            shapes = (gradient, w if of_data else x)
            first, second = (numbers(dtype, rng, shape, "near_one") for shape in shapes)
            if layout:
                first, second = relaid(first, layout), relaid(second, layout)
            return Sample(label, (first, second, x if of_data else w, *options))

        for label, x, w, *options in _CONVS:
            yield row(label, x, w, *options)
        for layout in LAYOUTS:
            options = [(1, 1), ((1, 0), (0, 0)), (1, 1), (1, 1), 1]
            yield row(NON_CONTIGUOUS, (1, 2, 4, 3), (2, 2, 2, 2), *options, layout=layout)

    return listed(samples)


def _linear(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for label, shapes in _LINEARS:
        yield Sample(label, tuple(numbers(dtype, rng, s, "near_one") for s in shapes))
    x, w = numbers(dtype, rng, (2, 3), "near_one"), numbers(dtype, rng, (4, 3), "near_one")
    for layout in LAYOUTS:
        yield Sample(NON_CONTIGUOUS, (relaid(x, layout), relaid(w, layout)))


def _linear_reference(x: HostArray, w: HostArray, bias: HostArray | None = None) -> HostArray:
    y = np.einsum("...i,oi->...o", x, w)
    return np.asarray(y if bias is None else y + bias)


def _exact_matmul(x: HostArray, y: HostArray) -> HostArray:
    return np.matmul(x.astype(np.int64), y.astype(np.int64))


def _dot(x: HostArray, y: HostArray) -> HostArray:
    wide = np.int64 if x.dtype.kind in "iu" else x.dtype
    return np.asarray(np.einsum("...i,...i->...", x.astype(wide), y.astype(wide)))


CASES = (
    OpCase(
        "matmul",
        _pairs(_MATMULS, ((2, 3), (3, 4))),
        integers(_exact_matmul, np.matmul),
        "iufc",
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
    OpCase(
        "conv",
        listed(_convs),
        windows.conv,
        NUMBERS,
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
    OpCase(
        "conv_data_gradient",
        _conv_gradients(of_data=True),
        windows.conv_data_gradient,
        NUMBERS,
        tolerance=SUMMED,
        grad=SMOOTH,
        since=(1, 1),
    ),
    OpCase(
        "conv_weight_gradient",
        _conv_gradients(of_data=False),
        windows.conv_weight_gradient,
        NUMBERS,
        tolerance=SUMMED_LONG,
        grad=SMOOTH,
        since=(1, 1),
    ),
    OpCase("dot", _pairs(_DOTS, ((2, 3), (2, 3))), _dot, NUMBERS, tolerance=SUMMED, grad=SMOOTH),
    OpCase(
        "outer",
        _pairs(_OUTERS, ((2,), (3,))),
        integers(np.outer),
        NUMBERS,
        tolerance=PRODUCT,
        grad=SMOOTH,
    ),
    OpCase("linear", listed(_linear), _linear_reference, "fc", tolerance=SUMMED, grad=SMOOTH),
)
