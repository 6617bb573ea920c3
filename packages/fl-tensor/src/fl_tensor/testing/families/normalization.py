"""Rows of normalisation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import listed
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import (
    EDGE,
    EMPTY,
    NON_CONTIGUOUS,
    PLAIN,
    OpCase,
    Operand,
    Sample,
    Tolerance,
    operand,
)
from fl_tensor.testing.values import Shape, numbers, relaid

SMOOTH = (PLAIN, NON_CONTIGUOUS)
COMPOSED = Tolerance(16, scale=4.0)
LAYOUTS = ("permuted", "stepped", "reversed")
_THREE = ("same", "same", "same")


def _layer_norms(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    def x(*shape: int) -> object:
        return numbers(dtype, rng, shape)

    yield Sample(PLAIN, (x(2, 4), x(4), x(4), (1,)))
    yield Sample(PLAIN, (x(2, 3, 2), x(3, 2), None, (1, 2), 1e-3))
    yield Sample(PLAIN, (x(3, 2), None, None, (0,)))
    yield Sample(EMPTY, (x(0, 4), x(4), x(4), (1,)))
    for layout in LAYOUTS:
        laid = relaid(numbers(dtype, rng, (2, 4)), layout)
        yield Sample(NON_CONTIGUOUS, (laid, x(4), x(4), (1,)))


def _layer_norm(
    x: HostArray,
    weight: HostArray | None,
    bias: HostArray | None,
    axis: Shape,
    eps: float = 1e-5,
) -> HostArray:
    shape = [n if i in axis else 1 for i, n in enumerate(x.shape)]
    count = np.prod([x.shape[a] for a in axis])
    centred = x - x.sum(axis, keepdims=True) / count
    y = centred / np.sqrt((centred**2).sum(axis, keepdims=True) / count + eps)
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def _batch_norms(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    def row(label: str, shape: Shape, axis: int, layout: str = "contiguous") -> Sample:
        n = (shape[axis],)
        x = relaid(numbers(dtype, rng, shape), layout)
        mean, weight, bias = (numbers(dtype, rng, n) for _ in range(3))
        return Sample(label, (x, mean, numbers(dtype, rng, n, "positive"), weight, bias, axis))

    yield row(PLAIN, (2, 3, 2), 1)
    yield row(PLAIN, (4, 2), 0)
    yield row(EMPTY, (0, 3), 1)
    for layout in LAYOUTS:
        yield row(NON_CONTIGUOUS, (2, 3), 1, layout)
    x, mean = numbers(dtype, rng, (2, 3)), numbers(dtype, rng, (3,))
    yield Sample(PLAIN, (x, mean, numbers(dtype, rng, (3,), "positive"), None, None, 1, 0.1))


def _batch_norm(
    x: HostArray,
    mean: HostArray,
    variance: HostArray,
    weight: HostArray | None = None,
    bias: HostArray | None = None,
    axis: int = 1,
    eps: float = 1e-5,
) -> HostArray:
    rows = np.moveaxis(x, axis, -1)
    y = (rows - mean) / np.sqrt(variance + eps)
    y = y if weight is None else y * weight
    return np.moveaxis(y if bias is None else y + bias, -1, axis)


def _trainings(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    def row(label: str, shape: Shape, axis: int, layout: str = "contiguous") -> Sample:
        weight, bias = (numbers(dtype, rng, (shape[axis],)) for _ in range(2))
        return Sample(label, (relaid(numbers(dtype, rng, shape), layout), weight, bias, axis))

    yield row(PLAIN, (4, 3, 2), 1)
    yield row(PLAIN, (3, 2, 2, 2), 3)
    yield row(PLAIN, (2, 5), 0)
    yield row(EMPTY, (4, 0), 1)
    yield row(EMPTY, (0, 3), 1)
    for layout in LAYOUTS:
        yield row(NON_CONTIGUOUS, (4, 3), 1, layout)
    for weight, bias in ((None, None), (numbers(dtype, rng, (3,)), None)):
        yield Sample(PLAIN, (numbers(dtype, rng, (5, 3)), weight, bias, 1, 0.1))
    same = operand([[1.5, -2.0]] * 3, dtype)  # nothing varies: what is left is the bias
    yield Sample(EDGE, (same, None, numbers(dtype, rng, (2,))))
    missing = operand([[1.0, 2.0], [float("nan"), 4.0]], dtype)
    yield Sample(EDGE, (missing,))


def _others(x: HostArray, axis: int) -> Shape:
    return tuple(i for i in range(x.ndim) if i != axis)


def _statistics(x: HostArray, axis: int) -> tuple[HostArray, HostArray]:
    with np.errstate(invalid="ignore"):  # over nothing
        count = np.float64(x.size) / x.shape[axis] if x.shape[axis] else 1.0
        mean = np.asarray(x.sum(_others(x, axis)) / count)
        centred = np.moveaxis(x, axis, -1) - mean
        return mean, (centred**2).sum(tuple(range(x.ndim - 1))) / count


def _batch_norm_training(
    x: HostArray,
    weight: HostArray | None = None,
    bias: HostArray | None = None,
    axis: int = 1,
    eps: float = 1e-5,
) -> tuple[HostArray, HostArray, HostArray]:
    mean, variance = _statistics(x, axis)
    return _batch_norm(x, mean, variance, weight, bias, axis, eps), mean, variance


def _gradients(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    def row(label: str, shape: Shape, axis: int, layout: str = "contiguous") -> Sample:
        gradient, x = numbers(dtype, rng, shape), numbers(dtype, rng, shape)
        weight = numbers(dtype, rng, (shape[axis],))
        given = (relaid(gradient, layout), relaid(x, layout), *statistics(x, axis))
        return Sample(label, (*given, weight, axis))

    def statistics(x: Operand, axis: int) -> list[Operand]:
        return [operand(v, dtype) for v in _statistics(x.values, axis)]

    yield row(PLAIN, (4, 3, 2), 1)
    yield row(PLAIN, (3, 2, 2, 2), 3)
    yield row(PLAIN, (2, 5), 0)
    yield row(EMPTY, (4, 0), 1)
    for layout in LAYOUTS:
        yield row(NON_CONTIGUOUS, (4, 3), 1, layout)
    gradient, x = numbers(dtype, rng, (5, 3)), numbers(dtype, rng, (5, 3))
    yield Sample(PLAIN, (gradient, x, *statistics(x, 1), None, 1, 0.1))


def _batch_norm_gradient(
    gradient: HostArray,
    x: HostArray,
    mean: HostArray,
    variance: HostArray,
    weight: HostArray | None = None,
    axis: int = 1,
    eps: float = 1e-5,
) -> tuple[HostArray, HostArray, HostArray]:
    # Of y = w u, u = (x - mean) / s: the projection of w g / s off 1 and u.
    g, rows = (np.moveaxis(v, axis, -1) for v in (gradient, x))
    over = tuple(range(x.ndim - 1))
    s = np.sqrt(variance + eps)
    u = (rows - mean) / s
    count = max(x.size // max(x.shape[axis], 1), 1)
    to_bias, to_weight = g.sum(over), (g * u).sum(over)
    to_x = (g - to_bias / count - u * (to_weight / count)) / s
    to_x = to_x if weight is None else to_x * weight
    return np.moveaxis(to_x, -1, axis), to_weight, to_bias


CASES = (
    OpCase("layer_norm", listed(_layer_norms), _layer_norm, tolerance=COMPOSED, grad=SMOOTH),
    OpCase("batch_norm", listed(_batch_norms), _batch_norm, tolerance=COMPOSED, grad=SMOOTH),
    OpCase(
        "batch_norm_training",
        listed(_trainings),
        _batch_norm_training,
        result=_THREE,
        tolerance=COMPOSED,
        grad=SMOOTH,
        since=(1, 1),
    ),
    OpCase(
        "batch_norm_gradient",
        listed(_gradients),
        _batch_norm_gradient,
        result=_THREE,
        tolerance=COMPOSED,
        grad=SMOOTH,
        since=(1, 1),
    ),
)
