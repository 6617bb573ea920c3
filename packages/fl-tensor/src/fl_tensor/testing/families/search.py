"""Rows of search and count operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fl_tensor import dtypes
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
    ZERO_D,
    OpCase,
    Operand,
    Sample,
    Tolerance,
    operand,
)
from fl_tensor.testing.values import Shape, extremes, numbers, relaid

ORDERED = "biuf"
LAYOUTS = ("permuted", "stepped", "reversed")
NAN, INF = float("nan"), float("inf")
SUMMED = Tolerance(16, scale=8.0)


def _few(dtype: DType, rng: np.random.Generator, shape: Shape) -> Operand:
    """Values of which many are equal."""
    values = rng.integers(0, 2 if dtype.kind == "b" else 4, shape)
    return operand(values + 1j * rng.integers(0, 2, shape) if dtype.kind == "c" else values, dtype)


def _ascending(x: Operand) -> Operand:
    return operand(np.sort(x.values, kind="stable"), x.dtype)


def _sorted_searches(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for side in ("left", "right"):
        for label, n, shape in (
            (PLAIN, 6, (6,)),
            (PLAIN, 5, (2, 3)),
            (PLAIN, 1, (3,)),
            (ZERO_D, 4, ()),
            (BROADCAST, 4, (1, 2)),
            (EMPTY, 0, (3,)),
            (EMPTY, 3, (0, 2)),
            (LONG, 41, (37,)),
        ):
            yield Sample(label, (_ascending(_few(dtype, rng, (n,))), _few(dtype, rng, shape), side))
        for layout in LAYOUTS:
            x, values = _ascending(_few(dtype, rng, (5,))), _few(dtype, rng, (5,))
            yield Sample(NON_CONTIGUOUS, (relaid(x, layout), values, side))
            yield Sample(NON_CONTIGUOUS, (x, relaid(values, layout), side))
        edges = operand(extremes(dtype), dtype)
        yield Sample(EDGE, (_ascending(edges), edges, side))


def _memberships(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for label, a, b in (
        (PLAIN, (6,), (6,)),
        (PLAIN, (2, 3), (2, 2)),
        (ZERO_D, (), ()),
        (BROADCAST, (2, 3), (1,)),
        (EMPTY, (0, 2), (3,)),
        (EMPTY, (3,), (0,)),
    ):
        yield Sample(label, (_few(dtype, rng, a), _few(dtype, rng, b)))
    yield Sample(PLAIN, (_few(dtype, rng, (4,)), _few(dtype, rng, (2,)), True))
    for layout in LAYOUTS:
        yield Sample(
            NON_CONTIGUOUS, (relaid(_few(dtype, rng, (2, 3)), layout), _few(dtype, rng, (2,)))
        )
    edges = operand(extremes(dtype), dtype)
    yield Sample(EDGE, (edges, edges))


def _bins(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    """Labels of that dtype to count, or weights of that dtype to add up by label."""

    def call(shape: Shape, length: int, layout: str = "contiguous") -> tuple[Any, ...]:
        kind = dtypes.int64 if dtype.is_floating else dtype
        labels = relaid(operand(rng.integers(0, max(length, 1), shape), kind), layout)
        if not dtype.is_floating:
            return labels, length
        return labels, length, relaid(numbers(dtype, rng, shape), layout)

    for label, shape, length in (
        (PLAIN, (7,), 4),
        (PLAIN, (2, 3), 9),
        (ZERO_D, (), 2),
        (EMPTY, (0,), 3),
        (EMPTY, (0,), 0),
        (LONG, (113,), 5),
    ):
        yield Sample(label, call(shape, length))
    for layout in LAYOUTS:
        yield Sample(NON_CONTIGUOUS, call((2, 3), 4, layout))


def _bincount(x: HostArray, length: int, weights: HostArray | None = None) -> HostArray:
    flat = None if weights is None else weights.ravel()
    return np.asarray(np.bincount(x.ravel(), flat, length))


def _histograms(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    """Of floating dtypes with weights, of others without."""

    def call(x: Operand, edges: Operand) -> tuple[Any, ...]:
        return (x, edges, numbers(dtype, rng, x.shape)) if dtype.is_floating else (x, edges)

    def edges(n: int) -> Operand:
        return _ascending(numbers(dtype, rng, (n,), "distinct"))

    for label, shape, n in (
        (PLAIN, (7,), 4),
        (PLAIN, (2, 3), 2),
        (PLAIN, (3,), 3),
        (ZERO_D, (), 3),
        (EMPTY, (0,), 3),
        (LONG, (113,), 6),
    ):
        yield Sample(label, call(numbers(dtype, rng, shape), edges(n)))
    for layout in LAYOUTS:
        yield Sample(NON_CONTIGUOUS, call(relaid(numbers(dtype, rng, (2, 3)), layout), edges(3)))
    yield Sample(EDGE, call(operand([0, 1, 1, 3], dtype), operand([0, 1, 3], dtype)))
    if dtype.is_floating:
        outside = operand([NAN, INF, -INF, -1.0, 0.5, 2.0], dtype)
        yield Sample(EDGE, call(outside, operand([-1.0, 0.5, 2.0], dtype)))


def _histogram(x: HostArray, edges: HostArray, weights: HostArray | None = None) -> HostArray:
    counts = [
        (x >= low) & ((x < high) | ((x == high) & (i == len(edges) - 2)))
        for i, (low, high) in enumerate(zip(edges[:-1], edges[1:], strict=True))
    ]
    return np.array([np.sum(c if weights is None else weights[c]) for c in counts])


def _distinct(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for label, shape in (
        (PLAIN, (7,)),
        (PLAIN, (6, 2)),
        (PLAIN, (5, 1, 2)),
        (EDGE, (1,)),
        (EDGE, (3, 0)),
        (EMPTY, (0,)),
        (EMPTY, (0, 2)),
        (PLAIN, (113,)),
    ):
        yield Sample(label, (_few(dtype, rng, shape),))
    yield Sample(LONG, (numbers(dtype, rng, (41,), "distinct"),))
    for layout in LAYOUTS:
        yield Sample(NON_CONTIGUOUS, (relaid(_few(dtype, rng, (5, 2)), layout),))
    yield Sample(EDGE, (operand(extremes(dtype), dtype),))
    if dtype.is_floating:
        for equal_nan in (True, False):
            rows = [[NAN, 1.0], [0.0, 2.0], [NAN, 1.0], [NAN, NAN]]
            yield Sample(EDGE, (operand([NAN, 1.0, NAN], dtype), equal_nan))
            yield Sample(EDGE, (operand(rows, dtype), equal_nan))


def _unique(x: HostArray, equal_nan: bool = True) -> tuple[Any, ...]:
    """One slice at a time, in Python: NaN sorts last, and is equal to itself or to nothing."""
    rows = [tuple(row) for row in x.reshape(x.shape[0], int(np.prod(x.shape[1:]))).tolist()]

    def rank(i: int) -> list[tuple[bool, Any, Any]]:
        return [(True, 0, 0) if v != v else (False, v.real, v.imag) for v in rows[i]]

    firsts: list[int] = []
    inverse = [0] * len(rows)
    for i in sorted(range(len(rows)), key=rank):
        nan = any(v != v for v in rows[i])
        if not firsts or rank(firsts[-1]) != rank(i) or (nan and not equal_nan):
            firsts.append(i)
        inverse[i] = len(firsts) - 1
    counts = [inverse.count(j) for j in range(len(firsts))]
    positions = np.array(firsts, np.int64)
    return x[positions], positions, np.array(inverse, np.int64), np.array(counts, np.int64)


def _places(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for label, shape in ((PLAIN, (2, 3)), (PLAIN, (4,)), (ZERO_D, ()), (EMPTY, (0, 2))):
        yield Sample(label, (_few(dtype, rng, shape),))
    for layout in LAYOUTS:
        yield Sample(NON_CONTIGUOUS, (relaid(_few(dtype, rng, (2, 3)), layout),))
    yield Sample(EDGE, (operand(extremes(dtype), dtype),))


CASES = (
    OpCase("searchsorted", listed(_sorted_searches), np.searchsorted, ORDERED, result="int64"),
    OpCase(
        "isin",
        listed(_memberships),
        lambda x, values, invert=False: np.isin(x, values, invert=invert),
        ORDERED,
        result="bool",
    ),
    OpCase(
        "bincount",
        listed(_bins),
        _bincount,
        "iuf",
        result="count",
        tolerance=SUMMED,
        grad=(PLAIN, NON_CONTIGUOUS),
    ),
    OpCase(
        "histogram",
        listed(_histograms),
        _histogram,
        ORDERED,
        result="count",
        tolerance=SUMMED,
        grad=(PLAIN, NON_CONTIGUOUS),
    ),
    OpCase(
        "unique",
        listed(_distinct),
        _unique,
        ORDERED + "c",
        result=("same", "int64", "int64", "int64"),
        data_dependent=True,
        grad=(LONG,),
    ),
    OpCase(
        "argwhere", listed(_places), np.argwhere, ORDERED + "c", result="int64", data_dependent=True
    ),
)
