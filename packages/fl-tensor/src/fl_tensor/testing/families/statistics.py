"""Rows of order statistics, of reductions that leave NaN out, and of running results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import along_axis, listed, reduction
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import (
    BROADCAST,
    EDGE,
    EMPTY,
    LONG,
    NON_CONTIGUOUS,
    PLAIN,
    ZERO_D,
    OpCase,
    Operand,
    Sample,
    Samples,
    Tolerance,
    operand,
)
from fl_tensor.testing.references.exact import integers
from fl_tensor.testing.values import numbers, relaid

ORDERED = "biuf"
SMOOTH = (PLAIN, ZERO_D, NON_CONTIGUOUS)
SUMMED = Tolerance(16, scale=8.0, overrides={"float16": 64, "bfloat16": 64})
COMPOSED = Tolerance(32, scale=4.0, overrides={"float16": 64, "bfloat16": 64})
RELATIVE = Tolerance(8, scale=1.0)
NAN, INF = float("nan"), float("inf")
METHODS = ("linear", "lower", "higher", "midpoint", "nearest")
Axes = tuple[int, ...]

ROWS = ([1.0, INF], [INF, -INF], [NAN, 1.0], [-0.0, 0.0], [NAN, NAN])
EXTREMES = ([1.0, NAN, 2.0], [INF, 1.0], [-INF, NAN], [NAN, -INF], [NAN, NAN])


def _holed(base: Samples) -> Samples:
    """``base`` with NaN: a third of long operands, and one element of others, where it does not
    stand alone."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in base(dtype, rng):
            x, *rest = sample.args
            axis = next(a for a in rest if isinstance(a, int) or not a or isinstance(a[0], int))
            reduced = np.prod([x.shape[a] for a in np.atleast_1d(np.array(axis, int))])
            if dtype.is_floating and sample.label != EDGE and x.values.size and reduced > 1:
                values = x.values.copy()
                holes = rng.integers(0, 3, x.shape) == 0 if sample.label == LONG else 0
                values.flat[np.flatnonzero(holes) if sample.label == LONG else 0] = NAN
                x = Operand(values, dtype, x.layout)
            yield Sample(sample.label, (x, *rest), sample.kwargs)

    return listed(samples)


def _present(x: HostArray, axis: int | Axes, keepdims: bool) -> HostArray:
    return np.asarray(np.sum(x == x, axis, keepdims=keepdims))


def _nan(function: Any) -> Callable[..., HostArray]:
    """A NumPy reduction with ``keepdims`` as third argument (NumPy's is another)."""

    def reference(x: HostArray, axis: Axes, keepdims: bool = False) -> HostArray:
        return np.asarray(function(x, axis=axis, keepdims=keepdims))

    return reference


def _nanmean(x: HostArray, axis: Axes, keepdims: bool = False) -> HostArray:
    total = np.nansum(x, axis, keepdims=keepdims)
    return np.asarray(np.divide(total, _present(x, axis, keepdims)))


def _nanvar(x: HostArray, axis: Axes, keepdims: bool = False, correction: float = 0.0) -> HostArray:
    centred = np.where(np.isnan(x), 0, x - _nanmean(x, axis, True))
    freedom = _present(x, axis, keepdims) - correction
    total = np.sum(centred * centred, axis, keepdims=keepdims)
    return np.asarray(total / np.where(freedom > 0, freedom, NAN))


def _nanstd(x: HostArray, axis: Axes, keepdims: bool = False, correction: float = 0.0) -> HostArray:
    return np.asarray(np.sqrt(_nanvar(x, axis, keepdims, correction)))


def _nanextreme(sign: int) -> Callable[..., HostArray]:
    def reference(x: HostArray, axis: Axes, keepdims: bool = False) -> HostArray:
        if x.dtype.kind != "f":
            return np.asarray((np.max if sign > 0 else np.min)(x, axis=axis, keepdims=keepdims))
        filled = np.where(np.isnan(x), -sign * INF, x)
        found = (np.max if sign > 0 else np.min)(filled, axis=axis, keepdims=keepdims)
        return np.where(_present(x, axis, keepdims) == 0, NAN, found)

    return reference


def _nanposition(sign: int) -> Callable[..., HostArray]:
    def reference(x: HostArray, axis: int, keepdims: bool = False) -> HostArray:
        best = _nanextreme(sign)(x, (axis,), True)
        return np.asarray(np.argmax(x == best, axis, keepdims=keepdims))

    return reference


def _corrected(base: Samples) -> Samples:
    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        yield from base(dtype, rng)
        yield Sample(PLAIN, (numbers(dtype, rng, (2, 3)), (1,), True), {"correction": 1})
        yield Sample(EDGE, (operand([NAN, 1.0], dtype), (0,), False), {"correction": 1})

    return listed(samples)


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
    values = np.sort(row[row == row] if skip else row)
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


def _running(function: Any) -> Callable[[HostArray, int], HostArray]:
    def reference(x: HostArray, axis: int = -1) -> HostArray:
        exact = x.astype(object) if x.dtype.kind in "iu" else x
        return np.asarray(function.accumulate(exact, axis))

    return reference


ORDER = (
    OpCase("quantile", listed(_quantiles), _quantile, tolerance=RELATIVE, grad=SMOOTH),
    OpCase(
        "nanquantile",
        _holed(listed(_quantiles)),
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
        _holed(reduction("distinct", edges=(*ROWS, [INF, INF]))),
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

WITHOUT_NAN = (
    OpCase(
        "nansum",
        _holed(reduction(edges=ROWS)),
        integers(_nan(np.sum), _nan(np.nansum)),
        "biufc",
        result="sum",
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
    OpCase(
        "nanprod",
        _holed(reduction("near_one", edges=ROWS)),
        integers(_nan(np.prod), _nan(np.nanprod)),
        "biufc",
        result="sum",
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
    OpCase("nanmean", _holed(reduction(edges=ROWS)), _nanmean, tolerance=SUMMED, grad=SMOOTH),
    OpCase(
        "nanvar",
        _holed(_corrected(reduction(edges=ROWS))),
        _nanvar,
        tolerance=COMPOSED,
        grad=SMOOTH,
    ),
    OpCase(
        "nanstd",
        _holed(_corrected(reduction(edges=ROWS))),
        _nanstd,
        tolerance=COMPOSED,
        grad=(LONG,),
    ),
    OpCase(
        "nanmax",
        _holed(reduction("distinct", edges=EXTREMES, identity=False)),
        _nanextreme(1),
        ORDERED,
        grad=SMOOTH,
    ),
    OpCase(
        "nanmin",
        _holed(reduction("distinct", edges=EXTREMES, identity=False)),
        _nanextreme(-1),
        ORDERED,
        grad=SMOOTH,
    ),
    OpCase(
        "nanargmax",
        _holed(reduction("distinct", edges=EXTREMES, identity=False, single_axis=True)),
        _nanposition(1),
        ORDERED,
        result="int64",
    ),
    OpCase(
        "nanargmin",
        _holed(reduction("distinct", edges=EXTREMES, identity=False, single_axis=True)),
        _nanposition(-1),
        ORDERED,
        result="int64",
    ),
)

RUNNING = (
    OpCase(
        "cumulative_prod",
        along_axis("near_one", edges=ROWS),
        _running(np.multiply),
        "iufc",
        result="sum",
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
    OpCase(
        "cumulative_max",
        along_axis("distinct", edges=ROWS),
        _running(np.maximum),
        ORDERED,
        grad=SMOOTH,
    ),
    OpCase(
        "cumulative_min",
        along_axis("distinct", edges=ROWS),
        _running(np.minimum),
        ORDERED,
        grad=SMOOTH,
    ),
    OpCase(
        "cumulative_logsumexp",
        along_axis(edges=(*ROWS, [1000.0, 1000.0], [-INF, -INF], [-1000.0, 0.0])),
        _running(np.logaddexp),
        tolerance=COMPOSED,
        grad=SMOOTH,
    ),
)

CASES = ORDER + WITHOUT_NAN + RUNNING
