"""Rows of reductions that ignore NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import holed, listed, reduction
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import (
    EDGE,
    LONG,
    NON_CONTIGUOUS,
    PLAIN,
    ZERO_D,
    OpCase,
    Sample,
    Samples,
    Tolerance,
    operand,
)
from fl_tensor.testing.references.exact import integers
from fl_tensor.testing.values import numbers

ORDERED = "biuf"
SMOOTH = (PLAIN, ZERO_D, NON_CONTIGUOUS)
SUMMED = Tolerance(16, scale=8.0, overrides={"float16": 64, "bfloat16": 64})
COMPOSED = Tolerance(32, scale=4.0, overrides={"float16": 64, "bfloat16": 64})
NAN, INF = float("nan"), float("inf")
Axes = tuple[int, ...]

ROWS = ([1.0, INF], [INF, -INF], [NAN, 1.0], [-0.0, 0.0], [NAN, NAN])
EXTREMES = ([1.0, NAN, 2.0], [INF, 1.0], [-INF, NAN], [NAN, -INF], [NAN, NAN])


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


CASES = (
    OpCase(
        "nansum",
        holed(reduction(edges=ROWS)),
        integers(_nan(np.sum), _nan(np.nansum)),
        "biufc",
        result="sum",
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
    OpCase(
        "nanprod",
        holed(reduction("near_one", edges=ROWS)),
        integers(_nan(np.prod), _nan(np.nanprod)),
        "biufc",
        result="sum",
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
    OpCase("nanmean", holed(reduction(edges=ROWS)), _nanmean, tolerance=SUMMED, grad=SMOOTH),
    OpCase(
        "nanvar",
        holed(_corrected(reduction(edges=ROWS))),
        _nanvar,
        tolerance=COMPOSED,
        grad=SMOOTH,
    ),
    OpCase(
        "nanstd",
        holed(_corrected(reduction(edges=ROWS))),
        _nanstd,
        tolerance=COMPOSED,
        grad=(LONG,),
    ),
    OpCase(
        "nanmax",
        holed(reduction("distinct", edges=EXTREMES, identity=False)),
        _nanextreme(1),
        ORDERED,
        grad=SMOOTH,
    ),
    OpCase(
        "nanmin",
        holed(reduction("distinct", edges=EXTREMES, identity=False)),
        _nanextreme(-1),
        ORDERED,
        grad=SMOOTH,
    ),
    OpCase(
        "nanargmax",
        holed(reduction("distinct", edges=EXTREMES, identity=False, single_axis=True)),
        _nanposition(1),
        ORDERED,
        result="int64",
    ),
    OpCase(
        "nanargmin",
        holed(reduction("distinct", edges=EXTREMES, identity=False, single_axis=True)),
        _nanposition(-1),
        ORDERED,
        result="int64",
    ),
)
