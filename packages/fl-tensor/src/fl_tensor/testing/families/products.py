"""Rows of einsum and its relatives, of diagonals and triangles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import calls, listed
from fl_tensor.testing.families.shape import ANY, MOVES, laid
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import (
    BROADCAST,
    EDGE,
    EMPTY,
    LONG,
    MOVED,
    NON_CONTIGUOUS,
    PLAIN,
    ZERO_D,
    OpCase,
    Sample,
    Samples,
    Tolerance,
)
from fl_tensor.testing.references.exact import integers
from fl_tensor.testing.values import Shape, numbers, relaid

NUMBERS = "iufc"
SMOOTH = (PLAIN, ZERO_D, BROADCAST, NON_CONTIGUOUS, EDGE)
SUMMED = Tolerance(16, scale=8.0)
LAYOUTS = ("permuted", "stepped", "reversed")

#: label, subscripts, shapes
_EINSUMS: tuple[tuple[str, str, tuple[Shape, ...]], ...] = (
    (PLAIN, "ij,jk->ik", ((2, 3), (3, 4))),
    (PLAIN, "ij,jk", ((2, 3), (3, 2))),
    (PLAIN, "ba", ((2, 3),)),
    (PLAIN, "ij,ij->", ((2, 3), (2, 3))),
    (PLAIN, "i,j,k->kij", ((2,), (3,), (2,))),
    (PLAIN, "ijk,jk,k->i", ((2, 3, 2), (3, 2), (2,))),
    (PLAIN, "ab,bc,cd,da->", ((2, 3), (3, 2), (2, 4), (4, 2))),
    (PLAIN, "ii->i", ((3, 3),)),
    (PLAIN, "iij,jk->k", ((2, 2, 3), (3, 2))),
    (PLAIN, "ij,kl->l", ((2, 2), (3, 2))),
    (ZERO_D, ",->", ((), ())),
    (ZERO_D, "...", ((),)),
    (BROADCAST, "...ij,...jk->...ik", ((2, 1, 2, 3), (3, 3, 2))),
    (BROADCAST, "i...,...->i...", ((2, 1, 3), (4, 1))),
    (BROADCAST, "i,i->i", ((1,), (3,))),
    (EDGE, "iii->i", ((2, 2, 2),)),
    (EDGE, "a...a->...", ((2, 3, 2),)),
    (EDGE, "i->", ((1,),)),
    (EMPTY, "ij,jk->ik", ((2, 0), (0, 3))),
    (EMPTY, "ij,j->i", ((0, 3), (3,))),
    (LONG, "bij,bkj->bik", ((2, 5, 19), (2, 3, 19))),
)


def _einsums(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for label, subscripts, shapes in _EINSUMS:
        yield Sample(label, ([numbers(dtype, rng, s, "near_one") for s in shapes], subscripts))
    for layout in LAYOUTS:
        x, y = (numbers(dtype, rng, (3, 3), "near_one") for _ in range(2))
        yield Sample(NON_CONTIGUOUS, ([relaid(x, layout), y], "ij,kj->ik"))
        yield Sample(NON_CONTIGUOUS, ([relaid(x, layout)], "ii"))


def _einsum(xs: Sequence[HostArray], subscripts: str) -> HostArray:
    if xs[0].dtype.kind in "iu":  # all in 64 bits: the comparison reduces modulo the width
        xs = [x.astype(np.int64) for x in xs]
    return np.asarray(np.einsum(subscripts, *xs))


def _pairs(*rows: tuple[Any, ...], laid: tuple[Any, ...]) -> Samples:
    """``op(x, y, *args)`` for rows ``(label, shape, shape, *args)``."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        for label, a, b, *args in rows:
            pair = (numbers(dtype, rng, a, "near_one"), numbers(dtype, rng, b, "near_one"))
            yield Sample(label, (*pair, *args))
        a, b, *args = laid
        for layout in LAYOUTS:
            x, y = numbers(dtype, rng, a, "near_one"), numbers(dtype, rng, b, "near_one")
            yield Sample(NON_CONTIGUOUS, (relaid(x, layout), y, *args))
            yield Sample(NON_CONTIGUOUS, (x, relaid(y, layout), *args))

    return listed(samples)


def _tensordot(x: HostArray, y: HostArray, axes: Any) -> HostArray:
    return np.asarray(np.tensordot(x, y, axes))


def _vecdot(x: HostArray, y: HostArray, axis: int) -> HostArray:
    back = axis - max(x.ndim, y.ndim)
    return np.asarray(np.sum(np.conj(x) * y, back))


def _cross(x: HostArray, y: HostArray, axis: int) -> HostArray:
    # Written out: NumPy's takes no Python integers, in which this is exact, before 2.3.
    (a, b, c), (d, e, f) = np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)
    return np.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis)


def _trace(x: HostArray, *args: int) -> HostArray:
    return np.asarray(np.sum(np.diagonal(x, *args), -1))


_DIAGONALS = (
    (PLAIN, (3, 4), 0, 0, 1),
    (PLAIN, (3, 4), 2, 0, 1),
    (PLAIN, (4, 3), -1, 1, 0),
    (PLAIN, (2, 3, 4), 1, 2, 0),
    (EDGE, (2, 3), 5, 0, 1),
    (EDGE, (1, 1), 0, 0, 1),
    (EMPTY, (0, 3), 0, 0, 1),
    (EMPTY, (2, 0, 3), -1, 2, 1),
)
_TRIANGLES = (
    (PLAIN, (3, 4), 0),
    (PLAIN, (3, 3), 1),
    (PLAIN, (2, 4, 3), -1),
    (EMPTY, (0, 3), 0),
)

PRODUCTS = (
    OpCase("einsum", listed(_einsums), _einsum, NUMBERS, tolerance=SUMMED, grad=SMOOTH),
    OpCase(
        "tensordot",
        _pairs(
            (PLAIN, (2, 3), (2, 3), ((0, 1), (0, 1))),
            (PLAIN, (2, 3, 4), (4, 2), ((0, 2), (1, 0))),
            (PLAIN, (3, 2), (4, 3), ((0,), (1,))),
            (PLAIN, (2,), (3,), ((), ())),
            (ZERO_D, (), (), ((), ())),
            (EMPTY, (2, 0), (0, 3), ((1,), (0,))),
            (EMPTY, (0, 3), (3,), ((1,), (0,))),
            (LONG, (5, 19), (19, 9), ((1,), (0,))),
            laid=((2, 3), (3, 2), ((0,), (1,))),
        ),
        integers(_tensordot),
        NUMBERS,
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
    OpCase(
        "vecdot",
        _pairs(
            (PLAIN, (3,), (3,), 0),
            (PLAIN, (2, 3), (2, 3), 0),
            (BROADCAST, (2, 1, 3), (4, 3), 2),
            (BROADCAST, (3, 2), (2, 3, 1), 1),
            (EMPTY, (0,), (0,), 0),
            (EMPTY, (0, 3), (0, 3), 1),
            (LONG, (3, 37), (3, 37), 1),
            laid=((2, 3), (2, 3), 0),
        ),
        integers(_vecdot),
        "iufc",
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
    OpCase(
        "inner",
        _pairs(
            (PLAIN, (3,), (3,)),
            (PLAIN, (2, 3), (2, 3)),
            (PLAIN, (2, 3), (4, 2, 3)),
            (ZERO_D, (), ()),
            (BROADCAST, (2, 3), ()),
            (EMPTY, (0,), (0,)),
            (EMPTY, (0, 3), (2, 3)),
            laid=((2, 3), (4, 3)),
        ),
        integers(np.inner),
        NUMBERS,
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
    OpCase(
        "kron",
        _pairs(
            (PLAIN, (2,), (3,)),
            (PLAIN, (2, 3), (2, 3)),
            (PLAIN, (2, 3), (2,)),
            (ZERO_D, (), ()),
            (BROADCAST, (), (2, 2)),
            (EMPTY, (0,), (2,)),
            laid=((2, 3), (3, 2)),
        ),
        integers(np.kron),
        NUMBERS,
        tolerance=Tolerance(4),
        grad=SMOOTH,
    ),
    OpCase(
        "cross",
        _pairs(
            (PLAIN, (3,), (3,), 0),
            (PLAIN, (2, 3), (2, 3), 1),
            (BROADCAST, (3, 1, 2), (3, 4, 1), 0),
            (EMPTY, (0, 3), (0, 3), 1),
            laid=((2, 3), (2, 3), 1),
        ),
        integers(_cross),
        NUMBERS,
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
)

DIAGONALS = (
    OpCase(
        "diagonal",
        calls(*_DIAGONALS, layouts=laid(0, 0, 1)),
        np.diagonal,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase(
        "trace",
        calls(*_DIAGONALS, layouts=laid(0, 0, 1)),
        integers(_trace),
        NUMBERS,
        result="sum",
        tolerance=SUMMED,
        grad=MOVES,
    ),
    OpCase(
        "diag",
        calls(
            (PLAIN, (3,), 0),
            (PLAIN, (3,), 2),
            (PLAIN, (2,), -1),
            (PLAIN, (3, 4), 1),
            (PLAIN, (4, 3), -1),
            (EDGE, (1,), 0),
            (EDGE, (2, 2), 3),
            (EMPTY, (0,), 0),
            (EMPTY, (0,), -2),
            (EMPTY, (0, 3), 1),
            layouts=(*laid(0), ("stepped", (4,), 1), ("reversed", (3,), -1)),
        ),
        np.diag,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase(
        "tril",
        calls(*_TRIANGLES, (EDGE, (2, 2), 5), layouts=laid(0)),
        np.tril,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase(
        "triu",
        calls(*_TRIANGLES, (EDGE, (2, 2), -5), layouts=laid(0)),
        np.triu,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
)

CASES = PRODUCTS + DIAGONALS
