"""Rows of reductions and scans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fl_tensor.dtypes import HALF, DType
from fl_tensor.testing.builders import along_axis, listed, reduction
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import (
    EDGE,
    MANY,
    NON_CONTIGUOUS,
    PLAIN,
    ZERO_D,
    OpCase,
    Sample,
    Samples,
    Tolerance,
    operand,
)
from fl_tensor.testing.references import indexing
from fl_tensor.testing.references.exact import integers
from fl_tensor.testing.sums import many_along, nearly_equal
from fl_tensor.testing.values import extremes, numbers

ORDERED, ANY = "biuf", "biufc"
SMOOTH = (PLAIN, ZERO_D, NON_CONTIGUOUS)
SUMMED = Tolerance(16, scale=8.0)
COMPOSED = Tolerance(32, scale=4.0)
NAN, INF = float("nan"), float("inf")
Axes = tuple[int, ...]

SUMS = ([1.0, INF], [INF, -INF], [NAN, 1.0], [-0.0, 0.0])
MAXIMA = ([1.0, NAN, 2.0], [INF, 1.0], [-INF, -INF], [-INF, NAN], [NAN, NAN])
EXPONENTIALS = ([1000.0, 1000.0], [-INF, -INF], [INF, 1.0], [-1000.0, 0.0], [NAN, 1.0], [-INF, 2.0])
SHIFTED = ([1000.0, 1000.0, 999.0], [-INF, 1.0], [-1000.0, 0.0], [NAN, 1.0])


def _with_rows(base: Samples, rows: Callable[[DType], list[Any]], axis: int | Axes) -> Samples:
    """``base`` and, under "edge", whole rows to reduce."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        yield from base(dtype, rng)
        for row in rows(dtype):
            yield Sample(EDGE, (operand(row, dtype), axis, False))

    return listed(samples)


def _over(function: Any) -> Callable[..., HostArray]:
    """A NumPy reduction with ``keepdims`` as third argument (NumPy's is another)."""

    def reference(x: HostArray, axis: int | Axes, keepdims: bool = False) -> HostArray:
        return np.asarray(function(x, axis=axis, keepdims=keepdims))

    return reference


def _accumulations(dtype: DType) -> list[Any]:
    """Sums that leave the operand's own range: they must be taken in 64 bits."""
    return [[max(extremes(dtype))] * 3] if dtype.kind in "iu" else []


def _ties(dtype: DType) -> list[Any]:
    if dtype.kind == "b":
        return [[False, True, True], [True, False], [False, False]]
    rows: list[Any] = [[1, 3, 3, 2, 3], [0, 0], [2, 1, 1], extremes(dtype)]
    if dtype.is_floating:
        rows = [*rows[:3], [1.0, NAN, NAN, 3.0], [-INF, -INF], [INF, 1.0, INF, -INF]]
    return rows


def _sum(x: HostArray, axis: Axes, keepdims: bool = False) -> HostArray:
    # Pairwise along any axis: NumPy is along the innermost.
    total = np.sum(np.ascontiguousarray(_flat(x, axis)), -1)
    return np.asarray(total).reshape(_kept(x, axis, keepdims))


def _mean(x: HostArray, axis: Axes, keepdims: bool = False) -> HostArray:
    count = np.prod([x.shape[a] for a in axis])
    return np.asarray(np.divide(_sum(x, axis, keepdims), count))


def _var(x: HostArray, axis: Axes, keepdims: bool = False, correction: float = 0.0) -> HostArray:
    centred = x - _mean(x, axis, True)
    centred = centred - _mean(centred, axis, True)  # the mean was rounded
    count = np.prod([x.shape[a] for a in axis])
    total = _sum(np.abs(centred) ** 2, axis, keepdims)
    return np.asarray(np.divide(total, max(count - correction, 0.0)))


def _std(x: HostArray, axis: Axes, keepdims: bool = False, correction: float = 0.0) -> HostArray:
    return np.asarray(np.sqrt(_var(x, axis, keepdims, correction)))


def _norm(x: HostArray, axis: Axes, keepdims: bool = False, ord: float = 2.0) -> HostArray:
    size = np.abs(x)
    if ord == 0:
        return np.asarray(np.sum(size != 0, axis, keepdims=keepdims))
    if ord == INF:
        return np.asarray(np.max(size, axis, keepdims=keepdims))
    if ord == -INF:
        return np.asarray(np.min(size, axis, keepdims=keepdims))
    return np.asarray(_sum(size**ord, axis, keepdims) ** (1 / ord))


def _norms(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    yield from reduction("nonzero")(dtype, rng)
    for ord in (1.0, 3.0, INF, -INF):
        yield Sample(PLAIN, (numbers(dtype, rng, (2, 3), "nonzero"), (1,), False, ord))
    yield Sample(EDGE, (operand([0.0, -2.0, 0.0, 1.0], dtype), (0,), True, 0))


def _variances(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    yield from reduction()(dtype, rng)
    yield Sample(PLAIN, (numbers(dtype, rng, (2, 3)), (1,), True), {"correction": 1})
    yield Sample(EDGE, (numbers(dtype, rng, (1, 2)), (0,), False), {"correction": 1})
    yield Sample(EDGE, (operand([1.0, NAN], dtype), (0,), False))
    if dtype not in HALF:
        for shape, axis in (((6, 2), (0,)), ((2, 3), (1,)), ((2, 300, 2), (1,)), ((99,), (0,))):
            yield Sample(MANY, (nearly_equal(dtype, shape), axis))


def _logsumexp(x: HostArray, axis: Axes, keepdims: bool = False) -> HostArray:
    return np.asarray(np.logaddexp.reduce(_flat(x, axis), -1).reshape(_kept(x, axis, keepdims)))


def _flat(x: HostArray, axis: Axes) -> HostArray:
    rest = [i for i in range(x.ndim) if i not in axis]
    size = int(np.prod([x.shape[a] for a in axis]))
    return np.transpose(x, (*rest, *axis)).reshape(*(x.shape[i] for i in rest), size)


def _kept(x: HostArray, axis: Axes, keepdims: bool) -> Axes:
    if keepdims:
        return tuple(1 if i in axis else n for i, n in enumerate(x.shape))
    return tuple(n for i, n in enumerate(x.shape) if i not in axis)


def _log_softmax(x: HostArray, axis: int = -1) -> HostArray:
    shifted = x - np.max(x, axis, keepdims=True, initial=-INF)
    return np.asarray(shifted - np.log(np.sum(np.exp(shifted), axis, keepdims=True)))


def _softmax(x: HostArray, axis: int = -1) -> HostArray:
    return np.asarray(np.exp(_log_softmax(x, axis)))


def _running(function: Any) -> Callable[[HostArray, int], HostArray]:
    def reference(x: HostArray, axis: int = -1) -> HostArray:
        exact = x.astype(object) if x.dtype.kind in "iu" else x
        return np.asarray(function.accumulate(exact, axis))

    return reference


def _positions() -> Samples:
    return _with_rows(reduction("distinct", identity=False, single_axis=True), _ties, 0)


def _truths() -> Samples:
    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in reduction()(dtype, rng):
            x, *args = sample.args
            # thin them out, so that any and all, true and false, occur
            thin = operand(np.where(rng.integers(0, 3, x.shape) == 0, x.values, 0), dtype)
            yield Sample(sample.label, (thin, *args))
        if dtype.is_floating:
            for row in ([NAN, 0.0], [-0.0, 0.0], [INF, NAN]):
                yield Sample(EDGE, (operand(row, dtype), (0,), False))

    return listed(samples)


CASES = (
    OpCase(
        "sum",
        many_along(_with_rows(reduction(edges=SUMS), _accumulations, (0,))),
        integers(_sum),
        "biufc",
        result="sum",
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
    OpCase(
        "prod",
        _with_rows(reduction("near_one", edges=SUMS), _accumulations, (0,)),
        integers(_over(np.prod)),
        "biufc",
        result="sum",
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
    OpCase(
        "max",
        reduction("distinct", edges=MAXIMA, identity=False),
        _over(np.max),
        ORDERED,
        grad=SMOOTH,
    ),
    OpCase(
        "min",
        reduction("distinct", edges=MAXIMA, identity=False),
        _over(np.min),
        ORDERED,
        grad=SMOOTH,
    ),
    OpCase("argmax", _positions(), indexing.argmax, ORDERED, result="int64"),
    OpCase("argmin", _positions(), indexing.argmin, ORDERED, result="int64"),
    OpCase(
        "cumulative_sum",
        many_along(along_axis(edges=SUMS), running=True),
        _running(np.add),
        "iufc",
        result="sum",
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
    OpCase("count_nonzero", _truths(), _over(np.count_nonzero), ANY, result="int64"),
    OpCase("any", _truths(), _over(np.any), ANY, result="bool"),
    OpCase("all", _truths(), _over(np.all), ANY, result="bool"),
    OpCase(
        "mean",
        many_along(reduction(edges=SUMS)),
        _mean,
        "fc",
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
    OpCase("var", listed(_variances), _var, "fc", "real", COMPOSED, grad=SMOOTH),
    OpCase(
        "std",
        listed(_variances),
        _std,
        "fc",
        "real",
        COMPOSED,
        grad=(PLAIN, NON_CONTIGUOUS),
    ),
    OpCase("norm", many_along(listed(_norms)), _norm, "fc", "real", COMPOSED, grad=SMOOTH),
    OpCase("logsumexp", reduction(edges=EXPONENTIALS), _logsumexp, tolerance=COMPOSED, grad=SMOOTH),
    OpCase("softmax", along_axis(edges=SHIFTED), _softmax, tolerance=COMPOSED, grad=SMOOTH),
    OpCase("log_softmax", along_axis(edges=SHIFTED), _log_softmax, tolerance=COMPOSED, grad=SMOOTH),
)
