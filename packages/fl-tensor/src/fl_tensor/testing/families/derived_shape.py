"""Rows of the derived operations that move elements by axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import calls, listed
from fl_tensor.testing.families.shape import ANY, MOVES, joined, laid
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import (
    EDGE,
    EMPTY,
    LONG,
    MOVED,
    NON_CONTIGUOUS,
    PLAIN,
    ZERO_D,
    OpCase,
    Sample,
    Tolerance,
)
from fl_tensor.testing.values import numbers, relaid


def _parts(x: HostArray, sizes: Sequence[int], axis: int) -> list[HostArray]:
    return list(np.split(x, np.cumsum(sizes)[:-1], axis))


def _diffs(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for label, shape, n, axis in (
        (PLAIN, (4,), 1, 0),
        (PLAIN, (2, 4), 2, 1),
        (PLAIN, (3, 2), 1, 0),
        (PLAIN, (3,), 0, 0),
        (EDGE, (2,), 3, 0),
        (EMPTY, (0, 2), 1, 0),
        (EMPTY, (2, 0), 1, 0),
        (LONG, (3, 37), 1, 1),
    ):
        yield Sample(label, (numbers(dtype, rng, shape), n, axis))
    x = numbers(dtype, rng, (2, 3))
    yield Sample(PLAIN, (x, 1, 1, numbers(dtype, rng, ()), numbers(dtype, rng, (2, 2))))
    yield Sample(PLAIN, (x, 1, 0, None, numbers(dtype, rng, (1, 3))))
    for layout in ("permuted", "stepped", "reversed"):
        yield Sample(NON_CONTIGUOUS, (relaid(numbers(dtype, rng, (3, 3)), layout), 1, 1))


def _diff(
    x: HostArray,
    n: int,
    axis: int,
    prepend: HostArray | None = None,
    append: HostArray | None = None,
) -> HostArray:
    if x.dtype.kind in "iu":  # in 64 bits: the comparison reduces modulo the width
        x = x.astype(np.int64)
    ends = {"prepend": prepend, "append": append}
    return np.diff(x, n, axis, **{k: v for k, v in ends.items() if v is not None})


#: label, shape, low, high
_WIDTHS = (
    (PLAIN, (4,), (2,), (3,)),
    (PLAIN, (2, 3), (1, 0), (0, 2)),
    (PLAIN, (3, 2, 2), (0, 0, 1), (2, 0, 1)),
    (ZERO_D, (), (), ()),
    (EDGE, (1,), (2,), (3,)),
    (EDGE, (2,), (5,), (7,)),
    (EDGE, (3,), (0,), (11,)),
    (EMPTY, (0, 2), (0, 1), (0, 1)),
)
_STACKS = (
    (PLAIN, [(2, 3), (2, 3)], 0),
    (PLAIN, [(2, 3), (2, 3), (2, 3)], 2),
    (ZERO_D, [(), ()], 0),
    (EMPTY, [(0, 2), (0, 2)], 1),
)

CASES = (
    OpCase(
        "expand_dims",
        calls(
            (PLAIN, (2, 3), 1),
            (PLAIN, (2,), 1),
            (ZERO_D, (), 0),
            (EMPTY, (0,), 1),
            layouts=laid(0),
        ),
        np.expand_dims,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase(
        "squeeze",
        calls(
            (PLAIN, (1, 3, 1), (0, 2)),
            (PLAIN, (2, 1), (1,)),
            (PLAIN, (2, 1), ()),
            (ZERO_D, (), ()),
            (EMPTY, (0, 1), (1,)),
            layouts=(("reversed", (3, 1), (1,)),),
        ),
        np.squeeze,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase(
        "moveaxis",
        calls(
            (PLAIN, (2, 3, 4), 0, 2),
            (PLAIN, (2, 3), 1, 0),
            (EMPTY, (2, 0, 3), 2, 0),
            layouts=laid(0, 1),
        ),
        np.moveaxis,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase(
        "swapaxes",
        calls(
            (PLAIN, (2, 3, 4), 0, 2),
            (PLAIN, (2, 3), 1, 1),
            (EMPTY, (2, 0), 0, 1),
            layouts=laid(0, 1),
        ),
        np.swapaxes,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase(
        "flip",
        calls(
            (PLAIN, (2, 3), (0,)),
            (PLAIN, (2, 3), (0, 1)),
            (PLAIN, (3,), ()),
            (ZERO_D, (), ()),
            (EMPTY, (0, 2), (0, 1)),
            layouts=laid((1,)),
        ),
        np.flip,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase(
        "roll",
        calls(
            (PLAIN, (5,), 2, 0),
            (PLAIN, (2, 3), -1, 1),
            (PLAIN, (2, 3), 7, 1),
            (EDGE, (4,), 8, 0),
            (EMPTY, (0, 2), 1, 0),
            layouts=laid(1, 1),
        ),
        np.roll,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase(
        "tile",
        calls(
            (PLAIN, (2, 3), (2, 1)),
            (PLAIN, (3,), (2, 2)),
            (PLAIN, (2, 3), (2,)),
            (ZERO_D, (), (3,)),
            (EMPTY, (2,), (0,)),
            layouts=laid((1, 2)),
        ),
        np.tile,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase("stack", joined(*_STACKS), np.stack, ANY, tolerance=MOVED, grad=MOVES),
    OpCase(
        "split",
        calls(
            (PLAIN, (5, 2), [2, 3], 0),
            (PLAIN, (2, 4), [1, 2, 1], 1),
            (PLAIN, (3,), [3], 0),
            (EMPTY, (3,), [0, 3, 0], 0),
            layouts=laid([1, 2], 1),
        ),
        _parts,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase(
        "repeat",
        calls(
            (PLAIN, (2, 3), (2,), 0),
            (PLAIN, (2, 3), (1, 0, 3), 1),
            (PLAIN, (3,), (0,), 0),
            (EDGE, (1,), (4,), 0),
            (EDGE, (2,), (0, 0), 0),
            (EMPTY, (0, 2), (3,), 0),
            (EMPTY, (0,), (), 0),
            layouts=laid((2,), 0),
        ),
        lambda x, repeats, axis: np.repeat(x, repeats if len(repeats) != 1 else repeats[0], axis),
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase(
        "unstack",
        calls(
            (PLAIN, (3,), 0),
            (PLAIN, (2, 3), 1),
            (EMPTY, (2, 0), 0),
            layouts=laid(0),
        ),
        lambda x, axis: list(np.moveaxis(x, axis, 0)),
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase("diff", listed(_diffs), _diff, ANY, tolerance=Tolerance(8, scale=8.0), grad=MOVES),
    OpCase(
        "pad_edges",
        calls(
            *(
                (label, shape, low, high, mode)
                for mode in ("edge", "reflect", "symmetric", "wrap")
                for label, shape, low, high in _WIDTHS
            ),
            layouts=[
                (layout, shape, (1, 0), (1, 2), mode)
                for layout, shape, mode in zip(
                    ("permuted", "stepped", "reversed", "permuted"),
                    ((2, 3),) * 4,
                    ("edge", "reflect", "symmetric", "wrap"),
                    strict=True,
                )
            ],
        ),
        lambda x, low, high, mode: np.pad(x, np.array([low, high], int).T, mode) if low else x,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
)
