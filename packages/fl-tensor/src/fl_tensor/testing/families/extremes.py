"""Rows of scatter by the largest and the smallest."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import listed
from fl_tensor.testing.opcase import (
    EDGE,
    EMPTY,
    LONG,
    NON_CONTIGUOUS,
    PLAIN,
    ZERO_D,
    OpCase,
    Operand,
    Sample,
    operand,
)
from fl_tensor.testing.references import indexing
from fl_tensor.testing.values import numbers, relaid

NAN, INF = float("nan"), float("inf")


def _places(values: object, dtype: DType = dtypes.int64) -> Operand:
    return operand(values, dtype)


def _scattered(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    def x(*shape: int) -> Operand:
        return numbers(dtype, rng, shape)

    yield Sample(PLAIN, (x(3, 4), _places([2, 0, 2]), x(3, 4), 0))
    yield Sample(PLAIN, (x(2, 3), _places([[1, 1], [1, 0]], dtypes.int32), x(2, 2, 2), 1))
    yield Sample(PLAIN, (x(2, 3, 2), _places([2, 0, 2, 2]), x(2, 4, 2), 1))
    yield Sample(ZERO_D, (x(3), _places(1), x(), 0))
    yield Sample(EMPTY, (x(3, 2), _places(np.zeros(0)), x(0, 2), 0))
    yield Sample(EMPTY, (x(0, 3), _places([1]), x(0, 1), 1))
    yield Sample(NON_CONTIGUOUS, (relaid(x(2, 3), "permuted"), _places([2, 2]), x(2, 2), 1))
    yield Sample(NON_CONTIGUOUS, (x(4, 3), _places([3, 3]), relaid(x(2, 3), "reversed"), 0))
    yield Sample(NON_CONTIGUOUS, (x(5), relaid(_places([4, 0, 4]), "stepped"), x(3), 0))
    yield Sample(LONG, (x(7), _places(rng.integers(0, 7, 1001)), x(1001), 0))
    if dtype.is_floating:
        rows = [1.0, NAN, 2.0, INF, -INF, 0.0, 3.0, NAN]
        base = operand([0.0, 0.0, NAN, 0.5, 0.5], dtype)
        yield Sample(EDGE, (base, _places([0, 0, 2, 3, 3, 4, 4, 1]), operand(rows, dtype), 0))
    elif dtype.is_integer:
        info = np.iinfo(dtype.name)
        ends = operand([info.min, info.max, info.min, 1], dtype)
        yield Sample(EDGE, (operand([1, 1], dtype), _places([0, 0, 1, 1]), ends, 0))


CASES = tuple(
    OpCase(
        f"scatter_{mode}",
        listed(_scattered),
        partial(indexing.scatter, mode=mode),
        "biuf",
        since=(1, 1),
        grad=(PLAIN, ZERO_D, NON_CONTIGUOUS),
    )
    for mode in ("max", "min")
)
