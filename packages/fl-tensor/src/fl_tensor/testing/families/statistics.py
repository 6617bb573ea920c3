"""Rows of order statistics and weighted means."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import holed, listed, reduction
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import (
    BROADCAST,
    EMPTY,
    NON_CONTIGUOUS,
    PLAIN,
    ZERO_D,
    OpCase,
    Sample,
    Tolerance,
)
from fl_tensor.testing.values import numbers, relaid

SMOOTH = (PLAIN, ZERO_D, NON_CONTIGUOUS)
SUMMED = Tolerance(16, scale=8.0, overrides={"float16": 64, "bfloat16": 64})
RELATIVE = Tolerance(8, scale=1.0)
NAN, INF = float("nan"), float("inf")
METHODS = ("linear", "lower", "higher", "midpoint", "nearest")
Axes = tuple[int, ...]

ROWS = ([1.0, INF], [INF, -INF], [NAN, 1.0], [-0.0, 0.0], [NAN, NAN])


def _quantiles(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for method in METHODS:
        for label, shape, axis, q in (
            (PLAIN, (5,), (0,), (0.0, 0.3, 0.5, 1.0)),
            (PLAIN, (2, 4), (1,), (0.25, 0.5)),
            (PLAIN, (2, 3, 2), (0, 2), (0.5, 0.9)),
            (ZERO_D, (), (), (0.5,)),
            (EMPTY, (2, 0), (1,), (0.5,)),
            (EMPTY, (0, 3), (1,), (0.1, 0.2)),
        ):
            x = numbers(dtype, rng, shape, "distinct")
            yield Sample(label, (x, q, axis, False, method))
            yield Sample(label, (x, q, axis, True, method))
    for sample in reduction("distinct", edges=(*ROWS, [INF, INF, 1.0]))(dtype, rng):
        x, axis, keepdims = sample.args
        yield Sample(sample.label, (x, (0.5, 0.75), axis, keepdims))


def _quantile(
    x: HostArray,
    q: tuple[float, ...],
    axis: Axes,
    keepdims: bool = False,
    method: str = "linear",
    skip: bool = False,
) -> HostArray:
    rest = [i for i in range(x.ndim) if i not in axis]
    rows = np.transpose(x, (*rest, *axis)).reshape(*(x.shape[i] for i in rest), -1 if x.size else 0)
    kept = tuple(1 if i in axis else n for i, n in enumerate(x.shape)) if keepdims else ()
    shape = kept if keepdims else rows.shape[:-1]
    found = (
        [np.apply_along_axis(_one, -1, rows, each, method, skip) for each in q] if x.size else []
    )
    if not x.size:
        return np.full((len(q), *shape), NAN)
    return np.array(found).reshape(len(q), *shape)


def _one(row: HostArray, q: float, method: str, skip: bool) -> float:
    values = np.sort(row[row == row] if skip else row, kind="stable")
    if not len(values) or np.isnan(values).any():
        return NAN
    place = q * (len(values) - 1)
    low = int(place)
    a, b, share = values[low], values[min(low + 1, len(values) - 1)], place - low
    if share == 0 or method == "lower" or a == b:
        return float(a)
    if method == "nearest":
        share = round(place) - low
    share = {"higher": 1.0, "midpoint": 0.5}.get(method, share)
    return float(a if share == 0 else b if share == 1 else a * (1 - share) + b * share)


def _nanquantile(
    x: HostArray,
    q: tuple[float, ...],
    axis: Axes,
    keepdims: bool = False,
    method: str = "linear",
) -> HostArray:
    return _quantile(x, q, axis, keepdims, method, skip=True)


def _median(skip: bool) -> Callable[..., HostArray]:
    def reference(x: HostArray, axis: Axes, keepdims: bool = False) -> HostArray:
        return _quantile(x, (0.5,), axis, keepdims, "linear", skip)[0]

    return reference


def _averages(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for label, shape, weights, axis, keepdims in (
        (PLAIN, (4,), (4,), (0,), False),
        (PLAIN, (2, 3), (2, 3), (1,), True),
        (PLAIN, (2, 3), (2, 3), (0, 1), False),
        (BROADCAST, (2, 3), (3,), (1,), False),
        (BROADCAST, (2, 3, 2), (2, 1, 1), (0,), True),
        (ZERO_D, (), (), (), False),
        (EMPTY, (0, 3), (0, 3), (0,), False),
        (EMPTY, (0, 3), (0, 3), (1,), False),
    ):
        pair = numbers(dtype, rng, shape), numbers(dtype, rng, weights, "positive")
        yield Sample(label, (*pair, axis, keepdims))
    for layout in ("permuted", "stepped", "reversed"):
        pair = numbers(dtype, rng, (2, 3)), numbers(dtype, rng, (2, 3), "positive")
        yield Sample(NON_CONTIGUOUS, (relaid(pair[0], layout), pair[1], (0,), False))


def _average(x: HostArray, weights: HostArray, axis: Axes, keepdims: bool = False) -> HostArray:
    weights = np.broadcast_to(weights, x.shape)
    total = np.sum(x * weights, axis, keepdims=keepdims)
    return np.asarray(np.divide(total, np.sum(weights, axis, keepdims=keepdims)))


CASES = (
    OpCase("quantile", listed(_quantiles), _quantile, tolerance=RELATIVE, grad=SMOOTH),
    OpCase(
        "nanquantile",
        holed(listed(_quantiles)),
        _nanquantile,
        tolerance=RELATIVE,
        grad=SMOOTH,
    ),
    OpCase(
        "median",
        reduction("distinct", edges=(*ROWS, [INF, INF])),
        _median(skip=False),
        tolerance=RELATIVE,
        grad=SMOOTH,
    ),
    OpCase(
        "nanmedian",
        holed(reduction("distinct", edges=(*ROWS, [INF, INF]))),
        _median(skip=True),
        tolerance=RELATIVE,
        grad=SMOOTH,
    ),
    OpCase(
        "average",
        listed(_averages),
        _average,
        "fc",
        tolerance=SUMMED,
        grad=(PLAIN, BROADCAST, NON_CONTIGUOUS),
    ),
)
