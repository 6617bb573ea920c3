"""Rows of creation and transfer."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import calls, listed
from fl_tensor.testing.hostdata import HostArray, decode, encode
from fl_tensor.testing.opcase import (
    DEVICE,
    EDGE,
    EMPTY,
    MOVED,
    PLAIN,
    ZERO_D,
    OpCase,
    Sample,
    Tolerance,
    operand,
)
from fl_tensor.testing.values import extremes, numbers

ANY = "biufc"


def _full(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    usual = {"b": True, "i": -3, "u": 3, "f": 1.5, "c": 1.5 - 2j}[dtype.kind]
    for label, shape in ((PLAIN, (2, 3)), (ZERO_D, ()), (EMPTY, (2, 0))):
        yield Sample(label, (shape, usual, dtype, DEVICE))
    for value in (*extremes(dtype), *([1 / 3] if dtype.is_floating else [])):
        yield Sample(EDGE, ((2,), value, dtype, DEVICE))


def _arange(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(PLAIN, (0, 5, 1, dtype, DEVICE))
    yield Sample(PLAIN, (3, 12, 4, dtype, DEVICE))
    yield Sample(EMPTY, (2, 2, 1, dtype, DEVICE))
    yield Sample(EMPTY, (5, 1, 1, dtype, DEVICE))
    if dtype.kind != "u":
        yield Sample(PLAIN, (5, -4, -2, dtype, DEVICE))
    if dtype.is_floating:
        yield Sample(PLAIN, (-1.0, 1.0, 0.25, dtype, DEVICE))
        yield Sample(EDGE, (0.0, 1.0, 0.3, dtype, DEVICE))
        yield Sample(EDGE, (1.0, 0.0, -0.4, dtype, DEVICE))


def _arange_reference(
    start: float, stop: float, step: float, dtype: DType, device: object
) -> HostArray:
    count = max(0, math.ceil((stop - start) / step))
    return np.array([start + i * step for i in range(count)], float)


def _from_host(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for label, shape in ((PLAIN, (2, 3)), (PLAIN, (5,)), (ZERO_D, ()), (EMPTY, (0, 2))):
        x = numbers(dtype, rng, shape)
        yield Sample(label, (memoryview(encode(x.values, dtype)), shape, dtype, DEVICE))
    values = operand(extremes(dtype), dtype).values
    yield Sample(EDGE, (memoryview(encode(values, dtype)), values.shape, dtype, DEVICE))


def _from_host_reference(
    data: memoryview, shape: tuple[int, ...], dtype: DType, device: object
) -> HostArray:
    return decode(data, shape, dtype)


CASES = (
    OpCase(
        "full",
        listed(_full),
        lambda shape, value, dtype, device: np.full(shape, value),
        ANY,
        tolerance=MOVED,
    ),
    OpCase("arange", listed(_arange), _arange_reference, "iuf", tolerance=Tolerance(1, scale=1.0)),
    OpCase("from_host", listed(_from_host), _from_host_reference, ANY, tolerance=MOVED),
    OpCase(
        "to_host",
        calls(
            (PLAIN, (2, 3)),
            (ZERO_D, ()),
            (EMPTY, (0, 2)),
            layouts=(("permuted", (2, 3)), ("stepped", (5,)), ("reversed", (3, 2))),
        ),
        lambda x: x,
        ANY,
        tolerance=MOVED,
    ),
)
