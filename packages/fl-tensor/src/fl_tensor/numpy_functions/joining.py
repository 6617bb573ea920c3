"""Joining and taking apart: stacks, blocks, parts, elements put in and left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import fl_tensor as ft
from fl_tensor import arguments, dtypes
from fl_tensor.arguments import axis_of
from fl_tensor.dispatch.frontend import (
    ArrayLike,
    beside,
    cast,
    operand,
    operands_of,
    prepare_all,
)
from fl_tensor.functions import coercion
from fl_tensor.numpy_functions.shaping import atleast_1d, atleast_2d, atleast_3d, ravel

__all__ = [
    "append",
    "array_split",
    "block",
    "column_stack",
    "concat",
    "delete",
    "dsplit",
    "dstack",
    "ediff1d",
    "hsplit",
    "hstack",
    "insert",
    "row_stack",
    "vsplit",
    "vstack",
]

# ---- joining -------------------------------------------------------------------------------------


def concat(xs: Sequence[ArrayLike], axis: int | None = 0) -> Any:
    """Join along ``axis``; with ``axis=None`` the flattened arrays."""
    if axis is None:
        xs, axis = [ravel(x) for x in _several("concat", xs)], 0
    return ft.concatenate(_several("concat", xs), axis)


def hstack(xs: Sequence[ArrayLike]) -> Any:
    """Join along axis 1; vectors along their only axis."""
    xs = [atleast_1d(x) for x in _several("hstack", xs)]
    return ft.concatenate(xs, 0 if xs[0].ndim == 1 else 1)


def vstack(xs: Sequence[ArrayLike]) -> Any:
    """Join along axis 0; vectors are rows."""
    return ft.concatenate([atleast_2d(x) for x in _several("vstack", xs)], 0)


def row_stack(xs: Sequence[ArrayLike]) -> Any:
    """As ``vstack``."""
    return vstack(xs)


def dstack(xs: Sequence[ArrayLike]) -> Any:
    """Join along axis 2; (n,) counts as (1, n, 1), and (m, n) as (m, n, 1)."""
    return ft.concatenate([atleast_3d(x) for x in _several("dstack", xs)], 2)


def column_stack(xs: Sequence[ArrayLike]) -> Any:
    """Join along axis 1; vectors are columns."""
    arrays = [atleast_1d(x) for x in _several("column_stack", xs)]
    return ft.concatenate([x if x.ndim > 1 else ft.reshape(x, (-1, 1)) for x in arrays], 1)


def _several(op: str, xs: Any) -> list[Any]:
    # The parts of a single array are as good as a list of arrays.
    if isinstance(xs, ft.Array):
        return list(ft.unstack(xs, 0))
    return prepare_all(op, "P", list(xs) if isinstance(xs, tuple) else xs)


def block(xs: Any) -> Any:
    """Nested lists of blocks, joined: the innermost lists along the last axis, the lists around
    them along the one before, and so on. Raises ArgumentError where lists are nested unevenly."""
    coercion.require_shallow([xs])
    depth = _depth(xs)
    blocks = prepare_all("block", "P", list(_blocks(xs)))
    rank = max(depth, *[x.ndim for x in blocks])
    rest = iter([ft.reshape(x, (*(1,) * (rank - x.ndim), *x.shape)) for x in blocks])

    def joined(part: Any, level: int) -> Any:
        if level == depth:
            return next(rest)
        return ft.concatenate([joined(p, level + 1) for p in part], level - depth)

    return joined(xs, 0).copy()


def _depth(xs: Any) -> int:
    if not isinstance(xs, list):
        return 0
    depths = {_depth(x) for x in xs}
    if len(depths) != 1:
        raise ft.ArgumentError(
            f"[block] lists of depths {sorted(depths)} side by side: expected blocks of one depth"
        )
    return 1 + depths.pop()


def _blocks(xs: Any) -> Iterator[Any]:
    if not isinstance(xs, list):
        yield xs
    else:
        for x in xs:
            yield from _blocks(x)


def append(x: ArrayLike, values: ArrayLike, axis: int | None = None) -> Any:
    """``x`` with ``values`` behind it along ``axis``; ``axis=None`` takes both in C order. The
    result is a new array."""
    return concat([x, values], axis)


def ediff1d(
    x: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Any:
    """Differences of neighbours in C order, between ``to_begin`` and ``to_end``, which are cast to
    the dtype of ``x``. Raises DTypeError for one of another kind, floats for an ``x`` of integers.
    """
    x, to_end, to_begin = operands_of("ediff1d", "Aaa", x, to_end, to_begin)
    made = ft.diff(ravel(x))
    ends = {"to_begin": to_begin, "": made, "to_end": to_end}
    for name, end in ends.items():
        if end is not None and "buifc".index(end.dtype.kind) > "buifc".index(made.dtype.kind):
            raise ft.DTypeError(
                f"[ediff1d] {name} is {end.dtype}, x is {x.dtype}: cast one of them"
            )
    parts = [cast(ravel(end), made.dtype) for end in ends.values() if end is not None]
    return ft.concatenate(parts, 0)


# ---- taking apart --------------------------------------------------------------------------------

Parts = int | Sequence[int]


def array_split(x: ArrayLike, parts: Parts, axis: int = 0) -> list[Any]:
    """Consecutive parts along ``axis``: ``parts`` of them, the first ones longer by one where the
    size is no multiple; or cut at the given places. (``ft.split`` takes the sizes of the parts.)"""
    x = operand("array_split", "A", x)
    axis = axis_of("array_split", axis, x.shape)
    places = list(arguments.ints_of("array_split", parts, "parts"))
    if arguments.is_single(parts):
        if places[0] < 1:
            raise ft.ArgumentError(f"[array_split] {places[0]} parts: expected at least one")
        each, more = divmod(x.shape[axis], places[0])
        places = [i * each + min(i, more) for i in range(1, places[0])]
    before = (slice(None),) * axis
    ends = zip([0, *places], [*places, None])
    return [x[(*before, slice(low, high))] for low, high in ends]


def hsplit(x: ArrayLike, parts: Parts) -> list[Any]:
    """Equal parts along axis 1 (of vectors along their only axis), or cut at the given places."""
    x = operand("hsplit", "A", x)
    return _equal_split("hsplit", x, parts, 0 if x.ndim == 1 else 1)


def vsplit(x: ArrayLike, parts: Parts) -> list[Any]:
    """Equal parts along axis 0, or cut at the given places."""
    return _equal_split("vsplit", operand("vsplit", "A", x), parts, 0)


def dsplit(x: ArrayLike, parts: Parts) -> list[Any]:
    """Equal parts along axis 2, or cut at the given places."""
    return _equal_split("dsplit", operand("dsplit", "A", x), parts, 2)


def _equal_split(op: str, x: Any, parts: Parts, axis: int) -> list[Any]:
    axis = axis_of(op, axis, x.shape)
    if arguments.is_single(parts):
        count = arguments.int_of(op, parts, "parts")
        if count < 1 or x.shape[axis] % count:
            raise ft.ShapeError(
                f"[{op}] x {x.shape}: axis {axis} of {x.shape[axis]} has no {count} equal parts; "
                f"array_split makes unequal ones"
            )
    return array_split(x, parts, axis)


# ---- elements put in and left out ----------------------------------------------------------------


def delete(x: ArrayLike, index: Any, axis: int | None = None) -> Any:
    """``x`` without the places ``index`` (an int, a slice, ints, a mask) along ``axis``;
    ``axis=None`` takes the elements in C order. IndexingError for one that is out of range."""
    x, axis = _along("delete", beside(x, index), axis)
    gone = set(_places("delete", index, x.shape[axis]))
    return _taken(x, [i for i in range(x.shape[axis]) if i not in gone], axis)


def insert(x: ArrayLike, index: Any, values: ArrayLike, axis: int | None = None) -> Any:
    """``x`` with ``values`` put in front of the places ``index`` (an int, a slice, ints) along
    ``axis``; ``axis=None`` takes the elements in C order. Values broadcast to the slices of ``x``
    and are cast to its dtype. IndexingError for a place that is out of range."""
    x, axis = _along("insert", beside(x, values, index), axis)
    size = x.shape[axis]
    places = _places("insert", index, size, size + 1)
    x, values = operands_of("insert", "AA", x, values)
    values = ft.reshape(cast(values, x.dtype), (*(1,) * (x.ndim - values.ndim), *values.shape))
    if arguments.is_single(index) and not isinstance(index, slice):
        values = ft.moveaxis(values, 0, axis)
    if len(places) == 1:
        places = places * values.shape[axis]
    wanted = (*x.shape[:axis], len(places), *x.shape[axis + 1 :])
    joined = ft.concatenate([x, ft.broadcast_to(values, wanted)], axis)
    # What is put in at a place comes in front of what is there: sorted by place, then by kind.
    order = sorted(
        [(p, 0, size + i) for i, p in enumerate(places)] + [(i, 1, i) for i in range(size)]
    )
    return _taken(joined, [source for _, _, source in order], axis)


def _taken(x: Any, places: list[int], axis: int) -> Any:
    return ft.take(x, ft.asarray(places, dtypes.int64, x.device, x.backend), axis)


def _along(op: str, x: ArrayLike, axis: int | None) -> tuple[Any, int]:
    x = operand(op, "A", x)
    return (ravel(x), 0) if axis is None else (x, axis_of(op, axis, x.shape))


def _places(op: str, index: Any, size: int, count: int | None = None) -> list[int]:
    # Places that an index names among ``size``, counted from the front; of ``count`` valid ones.
    count = size if count is None else count
    if isinstance(index, slice):
        return list(range(*index.indices(size)))
    given = index.tolist() if hasattr(index, "tolist") else index
    several = given if isinstance(given, (list, tuple, range)) else [given]
    if several and all(isinstance(i, bool) for i in several):
        if len(several) != size:
            raise ft.IndexingError(f"[{op}] a mask of {len(several)} for {size} elements")
        return [i for i, chosen in enumerate(several) if chosen]
    numbers = arguments.ints_of(op, several, "index")
    for n in numbers:
        if not -size <= n < count:
            raise ft.IndexingError(f"[{op}] index {n} is out of range for {size} elements")
    return [n + size if n < 0 else n for n in numbers]
