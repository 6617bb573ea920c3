"""Rows of the primitives that move elements by axis: reshape, permute, concatenate, pad, slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import calls, listed
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import (
    BROADCAST,
    EDGE,
    EMPTY,
    MOVED,
    NON_CONTIGUOUS,
    PLAIN,
    ZERO_D,
    OpCase,
    Operand,
    Sample,
    Samples,
)
from fl_tensor.testing.values import Shape, numbers, relaid

ANY = "biufc"
MOVES = (PLAIN, ZERO_D, EDGE, NON_CONTIGUOUS)


def _pad(x: HostArray, low: Shape, high: Shape, interior: Shape, value: Any = 0) -> HostArray:
    """Written from the definition: an array of the value with x set into it."""
    spread = [n + max(n - 1, 0) * i for n, i in zip(x.shape, interior, strict=True)]
    out = np.full([a + n + b for a, n, b in zip(low, spread, high, strict=True)], value, x.dtype)
    places = tuple(slice(a, a + n, i + 1) for a, n, i in zip(low, spread, interior, strict=True))
    out[places] = x
    return out


def _slice(x: HostArray, starts: Shape, sizes: Shape, steps: Shape) -> HostArray:
    for axis, (start, size, step) in enumerate(zip(starts, sizes, steps, strict=True)):
        x = np.take(x, [start + i * step for i in range(size)], axis)
    return x


def joined(*rows: tuple[str, Sequence[Shape], int]) -> Samples:
    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        for label, shapes, axis in rows:
            xs = [numbers(dtype, rng, shape) for shape in shapes]
            yield Sample(label, (xs, axis))
        for layout in ("permuted", "stepped", "reversed"):
            same = [numbers(dtype, rng, (2, 3)) for _ in range(2)]
            yield Sample(NON_CONTIGUOUS, ([relaid(same[0], layout), same[1]], 1))

    return listed(samples)


def _pads(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    value = {"b": True, "i": -2, "u": 7, "f": -1.5, "c": 1j}[dtype.kind]

    def x(shape: Shape) -> Operand:
        return numbers(dtype, rng, shape)

    yield Sample(PLAIN, (x((2, 3)), (1, 0), (0, 2), (0, 0), value))
    yield Sample(PLAIN, (x((2, 3)), (0, 1), (0, 1), (1, 2), value))
    yield Sample(PLAIN, (x((3,)), (0,), (0,), (0,)))
    yield Sample(ZERO_D, (x(()), (), (), (), value))
    yield Sample(EMPTY, (x((0, 2)), (1, 0), (2, 0), (3, 1), value))
    yield Sample(EMPTY, (x((0,)), (0,), (0,), (2,)))
    yield Sample(NON_CONTIGUOUS, (relaid(x((2, 3)), "permuted"), (1, 1), (0, 1), (0, 1), value))
    yield Sample(NON_CONTIGUOUS, (relaid(x((4,)), "reversed"), (1,), (1,), (1,), value))
    if dtype.is_floating:
        for special in (float("-inf"), float("nan")):
            yield Sample(EDGE, (x((2,)), (1,), (1,), (0,), special))


LAID = (("permuted", (2, 3)), ("stepped", (2, 3)), ("reversed", (2, 3)))


def laid(*args: Any) -> list[tuple[Any, ...]]:
    return [(layout, shape, *args) for layout, shape in LAID]


_RESHAPES = (
    (PLAIN, (2, 3), (3, 2)),
    (PLAIN, (2, 3), (6,)),
    (PLAIN, (6,), (1, 2, 3)),
    (ZERO_D, (), (1, 1)),
    (ZERO_D, (1,), ()),
    (EMPTY, (0, 3), (3, 0, 2)),
)
_PERMUTES = (
    (PLAIN, (2, 3), (1, 0)),
    (PLAIN, (2, 3, 2), (2, 0, 1)),
    (PLAIN, (4,), (0,)),
    (ZERO_D, (), ()),
    (EMPTY, (0, 2, 3), (2, 0, 1)),
)
_BROADCASTS = (
    (BROADCAST, (3,), (2, 3)),
    (BROADCAST, (2, 1), (2, 4)),
    (BROADCAST, (1, 3, 1), (2, 2, 3, 2)),
    (PLAIN, (2, 3), (2, 3)),
    (ZERO_D, (), ()),
    (ZERO_D, (), (2, 2)),
    (EMPTY, (1, 3), (0, 3)),
    (EMPTY, (0, 1), (0, 2)),
)
_SLICES = (
    (PLAIN, (4, 5), (1, 0), (2, 3), (1, 2)),
    (PLAIN, (6,), (5,), (3,), (-2,)),
    (PLAIN, (3, 4), (2, 3), (3, 4), (-1, -1)),
    (ZERO_D, (), (), (), ()),
    (EMPTY, (3, 4), (0, 4), (2, 0), (1, 1)),
    (EMPTY, (0, 2), (0, 1), (0, 2), (1, -1)),
    (EDGE, (5,), (4,), (1,), (7,)),
)
_PAIRS = (
    (PLAIN, [(2, 3), (1, 3)], 0),
    (PLAIN, [(2, 1), (2, 2), (2, 1)], 1),
    (PLAIN, [(2, 2)], 0),
    (EMPTY, [(0, 2), (2, 2), (0, 2)], 0),
    (EMPTY, [(2, 0), (3, 0)], 0),
)
CASES = (
    OpCase(
        "reshape",
        calls(*_RESHAPES, layouts=laid((3, 2))),
        np.reshape,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase(
        "permute",
        calls(*_PERMUTES, layouts=laid((1, 0))),
        np.transpose,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase(
        "broadcast_to",
        calls(*_BROADCASTS, layouts=laid((2, 2, 3))),
        np.broadcast_to,
        ANY,
        tolerance=MOVED,
        grad=(*MOVES, BROADCAST),
    ),
    OpCase("concatenate", joined(*_PAIRS), np.concatenate, ANY, tolerance=MOVED, grad=MOVES),
    OpCase("pad", listed(_pads), _pad, ANY, tolerance=MOVED, grad=(PLAIN, ZERO_D, NON_CONTIGUOUS)),
    OpCase(
        "slice",
        calls(*_SLICES, layouts=laid((1, 2), (2, 2), (-1, -2))),
        _slice,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
)
