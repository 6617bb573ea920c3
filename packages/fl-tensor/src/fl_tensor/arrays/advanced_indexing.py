"""Parsing of NumPy's index expressions, for getting and setting."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from fl_tensor import dtypes
from fl_tensor.arrays.value import ArrayValue
from fl_tensor.dispatch import frontend, registry
from fl_tensor.errors import ArgumentError, DTypeError, IndexingError
from fl_tensor.functions import gathering, shaping

_FIXED = frozenset((int, type(None), type(Ellipsis)))
_BASIC = _FIXED | {slice}
_BOUNDS = frozenset((int, type(None)))


class Place(NamedTuple):
    """The elements of an array ``x`` that an index means.

    First a strided box: ``starts``, ``sizes`` and ``steps`` per axis of ``x``. Then its axes are
    ``axes``, each an axis of ``x``, or None for a new one of size 1; what is missing had size 1 and
    vanishes; their sizes are ``shape``. Along some of these axes, index ``arrays`` pick: they
    broadcast to one shape, which stands in their stead, from axis ``at`` on."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    axes: tuple[int | None, ...]
    shape: tuple[int, ...]
    arrays: dict[int, Any]
    at: int
    #: The box is all of ``x``.
    whole: bool


class _Pick(NamedTuple):
    """An index array, or one axis of a mask."""

    indices: Any
    #: What the size of the axis must be, if it must.
    size: int | None = None
    #: The axis is a new one, of size 1: the mask is a single bool.
    new: bool = False


def parse(op: str, x: Any, index: Any) -> Place:
    """Read an index of ``x``. Raises IndexingError for a position out of range or an object that is
    no index, DTypeError for the bounds of a slice, ArgumentError for its step, BackendError for an
    array of another backend."""
    items: Sequence[Any] = index if type(index) is tuple else (index,)
    if _FIXED.issuperset(map(type, items)):
        return seen(op, x.shape, items)
    if not _BASIC.issuperset(map(type, items)):
        items = [part for item in items for part in _items(op, x, item)]
    elif (keys := _keys(items)) is not None:
        return seen(op, x.shape, keys)
    return _place(op, x.shape, items)


def _place(op: str, shape: tuple[int, ...], items: Sequence[Any]) -> Place:
    # Of ints, slices, also as ``_keys`` has them, None, Ellipsis and picks.
    rank = len(shape)
    starts, sizes, steps = [0] * rank, list(shape), [1] * rank
    axes: list[int | None] = []
    box: list[int] = []
    arrays: dict[int, Any] = {}
    picks: list[tuple[int, int]] = []  # of ints and arrays: place in the index, axis in the box
    whole = True
    axis = 0
    for i, item in enumerate(items):
        kind = type(item)
        if item is None:
            axes.append(None)
            box.append(1)
        elif item is Ellipsis:
            rest = axis + _unnamed(op, shape, items)
            axes.extend(range(axis, rest))
            box.extend(shape[axis:rest])
            axis = rest
        elif kind is _Pick and item.new:
            picks.append((i, len(box)))
            arrays[len(box)] = item.indices
            axes.append(None)
            box.append(1)
        elif axis == rank:
            _unnamed(op, shape, items)  # raises: more indices than axes
        else:
            size = shape[axis]
            if kind is tuple:
                item, kind = slice(*item), slice
            if kind is int:
                if not -size <= item < size:
                    raise IndexingError(
                        f"[{op}] x {shape}: index {item} is out of range for axis {axis} of {size}"
                    )
                starts[axis] = item + size if item < 0 else item
                sizes[axis] = 1
                whole = whole and size == 1
                picks.append((i, len(box)))
            else:
                if kind is slice and item.start is item.stop is item.step is None:
                    pass  # as it is
                elif kind is slice:
                    starts[axis], size, steps[axis] = _bounds(op, item, size)
                    whole = whole and size == shape[axis] and steps[axis] == 1
                    sizes[axis] = size
                else:
                    picks.append((i, len(box)))
                    arrays[len(box)] = _checked(op, shape, item, axis)
                axes.append(axis)
                box.append(size)
            axis += 1
    if axis < rank:
        axes.extend(range(axis, rank))
        box.extend(shape[axis:])
    at = 0
    if arrays and picks[-1][0] - picks[0][0] == len(picks) - 1:  # side by side, no '...' between
        at = picks[0][1]
    made = tuple(starts), tuple(sizes), tuple(steps), tuple(axes), tuple(box), arrays, at, whole
    return tuple.__new__(Place, made)  # sooner than by its constructor


#: A loop has the same few indices again and again: ``seen(op, shape, items)`` is for items that are
#: of class int, None, '...', or what ``_keys`` makes of slices.
seen = functools.lru_cache(maxsize=1024)(_place)


def _keys(items: Sequence[Any]) -> tuple[Any, ...] | None:
    """The items with tuples for slices, which were no keys of a dictionary before Python 3.12; None
    where bounds are of another class than int: True and 1.0 are equal to 1."""
    found = []
    for item in items:
        if type(item) is slice:
            item = item.start, item.stop, item.step
            if not _BOUNDS.issuperset(map(type, item)):
                return None
        found.append(item)
    return tuple(found)


def whole_mask(op: str, x: Any, index: Any) -> Any:
    """The index as a Tensor if it is a boolean array of the shape of ``x``, which has axes; else
    None."""
    if isinstance(index, ArrayValue) and index.dtype is dtypes.bool and index.shape == x.shape:
        return _same_backend(op, x, index) if x.shape else None
    return None


def _unnamed(op: str, shape: tuple[int, ...], items: Sequence[Any]) -> int:
    """How many axes an ellipsis stands for."""
    named = dots = 0
    for item in items:
        if item is Ellipsis:
            dots += 1
        elif item is not None and not (type(item) is _Pick and item.new):
            named += 1
    if dots > 1:
        raise IndexingError(f"[{op}] x {shape}: an index may have one ellipsis ('...') only")
    if named > len(shape):
        raise IndexingError(f"[{op}] x {shape}: {named} indices for {len(shape)} axes")
    return len(shape) - named


def _bounds(op: str, item: slice, size: int) -> tuple[int, int, int]:
    try:
        start, stop, step = item.indices(size)
    except ValueError:
        raise ArgumentError(f"[{op}] {item}: the step of a slice may not be 0") from None
    except TypeError as error:
        raise DTypeError(f"[{op}] {item}: {error}") from None
    count = max(stop - start, 0) if step == 1 else len(range(start, stop, step))
    return (start if count else 0), count, step


def _checked(op: str, shape: tuple[int, ...], item: _Pick, axis: int) -> Any:
    if item.size is None:
        return gathering.in_range(op, item.indices, shape[axis], axis, shape)
    if item.size not in (shape[axis], 0):  # NumPy: an empty mask fits any axis
        raise IndexingError(
            f"[{op}] x {shape}: a mask of {item.size} stands for axis {axis} of {shape[axis]}"
        )
    return item.indices


# ---- from what people write to ints, slices, None, Ellipsis and picks ---------------------------


def _items(op: str, x: Any, item: Any) -> list[Any]:
    if type(item) in _BASIC:
        return [item]
    # NumPy's truth values come with a number for an index, before 2.3.
    truth = getattr(getattr(item, "dtype", None), "kind", "") == "b"
    if not (truth or isinstance(item, (bool, ArrayValue))):
        try:
            return [operator.index(item)]
        except TypeError:
            pass
    indices = _array(op, x, item)
    if indices.dtype is dtypes.bool:
        if not indices.shape:
            positions = gathering.nonzero(shaping.reshape(indices, (1,)))[0]
            return [_Pick(positions, new=True)]
        found = gathering.nonzero(indices)
        return [_Pick(i, n) for i, n in zip(found, indices.shape, strict=True)]
    if not indices.dtype.is_integer:
        raise IndexingError(f"[{op}] an index array is {indices.dtype}: expected integers or bools")
    return [_Pick(indices) if indices.shape else operator.index(indices)]


def _array(op: str, x: Any, item: Any) -> Any:
    if isinstance(item, ArrayValue):
        return _same_backend(op, x, item)
    try:
        if isinstance(item, (str, bytes, float, complex)):
            raise DTypeError("no number of a position")
        made = frontend.converted(item, x)
    except DTypeError as error:
        raise IndexingError(
            f"[{op}] a {type(item).__name__} is no index: expected ints, slices, None, '...', "
            f"or arrays of integers or bools"
        ) from error
    # An empty sequence says nothing of what it holds.
    empty = made.size == 0 and isinstance(item, (list, tuple))
    return made.astype(dtypes.int64) if empty else made


def _same_backend(op: str, x: Any, index: ArrayValue) -> Any:
    if index._backend is not x._backend:
        raise registry.mixed(op, x, index)
    return index._tensor()
