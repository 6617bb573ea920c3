"""Rows of the derived operations that move elements by axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fl_tensor.testing.builders import calls
from fl_tensor.testing.families.shape import ANY, MOVES, joined, laid
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import EDGE, EMPTY, MOVED, PLAIN, ZERO_D, OpCase


def _parts(x: HostArray, sizes: Sequence[int], axis: int) -> list[HostArray]:
    return list(np.split(x, np.cumsum(sizes)[:-1], axis))


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
)
