"""Reshaping, joining, splitting and indexing, in NumPy."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fl_memory import selection
from fl_tensor import rules
from fl_tensor.backends.numpy import memory
from fl_tensor.backends.numpy.adapter import NumpyAdapter, adapt, is_sole_owner
from fl_tensor.backends.numpy.ufuncs import wide
from fl_tensor.dtypes import HALF, int64
from fl_tensor.roles import Scalar

Value = NumpyAdapter
Array: TypeAlias = np.ndarray[Any, Any]

_INT64 = np.dtype(np.int64)
# What is a view takes next to no time; the constructor would take as long. Hence what is written
# out three times.
_new = object.__new__


class ShapeOps:
    """What computes no elements: the mixin of the primitives of shape."""

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        array = x.array
        if not (array.flags.c_contiguous or _differ_in_ones(array.shape, shape)):
            out = memory.empty(array.shape, array.dtype)
            np.copyto(out, array)
            array = out
        made = _new(NumpyAdapter)
        made.array = array.reshape(shape)
        made.dtype = x.dtype
        return made

    def permute(self, x: Value, axes: tuple[int, ...]) -> Value:
        made = _new(NumpyAdapter)
        made.array = x.array.transpose(axes)
        made.dtype = x.dtype
        return made

    def broadcast_to(self, x: Value, shape: tuple[int, ...]) -> Value:
        return NumpyAdapter(np.broadcast_to(x.array, shape), x.dtype)

    def concatenate(self, xs: Sequence[Value], axis: int = 0) -> Value:
        arrays = [x.array for x in xs]
        if sum([a.nbytes for a in arrays]) < selection.always_small:
            return NumpyAdapter(np.concatenate(arrays, axis), xs[0].dtype)
        out = memory.empty(rules.concatenate(xs, axis).shape, arrays[0].dtype)
        np.concatenate(arrays, axis, out)
        return NumpyAdapter(out, xs[0].dtype)

    def pad(
        self,
        x: Value,
        low: tuple[int, ...],
        high: tuple[int, ...],
        interior: tuple[int, ...],
        value: Scalar = 0,
    ) -> Value:
        out = memory.empty(rules.pad(x, low, high, interior, value).shape, x.array.dtype)
        out.fill(value)
        places = (
            slice(b, b + max(n - 1, 0) * (i + 1) + min(n, 1), i + 1)
            for n, b, i in zip(x.shape, low, interior, strict=True)
        )
        out[tuple(places)] = x.array
        return NumpyAdapter(out, x.dtype)

    def slice(
        self, x: Value, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]
    ) -> Value:
        if not starts:
            return x
        array = x.array[slice_index(starts, sizes, steps)]
        if array.shape != sizes or min(starts) < 0:
            rules.slice(x, starts, sizes, steps)  # says what is out of range
        made = _new(NumpyAdapter)
        made.array = array
        made.dtype = x.dtype
        return made

    def gather(self, x: Value, indices: Value, axis: int = 0) -> Value:
        if not x.shape:
            rules.gather(x, indices, axis)  # says what is wrong
        shape = x.shape[:axis] + indices.shape + x.shape[axis + 1 :]
        if memory.is_small(math.prod(shape) * x.array.itemsize):
            return adapt(x.array.take(indices.array, axis), x.dtype)
        out = memory.empty(shape, x.array.dtype)
        # mode "raise" would work through a buffered copy of ``out``
        if indices.array.size and (
            indices.array.min() < 0 or indices.array.max() >= x.array.shape[axis]
        ):
            raise IndexError(f"[gather] x {x.shape}: an index is out of range for axis {axis}")
        np.take(x.array, indices.array, axis, out, mode="clip")
        return NumpyAdapter(out, x.dtype)

    def scatter(
        self,
        x: Value,
        indices: Value,
        updates: Value,
        axis: int = 0,
        mode: str = "set",
        donate: bool = False,
    ) -> Value:
        rules.scatter(x, indices, updates, axis, mode, donate)
        in_place = donate and is_sole_owner(x)
        return self.scattered(x, indices, updates, axis, mode, in_place)

    def scattered(
        self, x: Value, indices: Value, updates: Value, axis: int, mode: str, in_place: bool
    ) -> Value:
        place: Any = (slice(None),) * axis + (indices.array,)
        if mode == "add" and x.dtype in HALF:
            total = wide(x)
            np.add.at(total, place, updates.array)
            return NumpyAdapter(memory.cast(total, x.array.dtype), x.dtype)
        out = x.array if in_place else _copy(x.array)
        if mode == "add" and axis == 0 and out.ndim > 1 and out.flags.c_contiguous:
            _add_rows(out, indices.array.reshape(-1), updates.array)
        elif mode == "add":
            np.add.at(out, place, updates.array)
        else:
            out[place] = updates.array
        return NumpyAdapter(out, x.dtype)

    def slice_update(
        self,
        x: Value,
        starts: tuple[int, ...],
        steps: tuple[int, ...],
        updates: Value,
        donate: bool = False,
    ) -> Value:
        rules.slice(x, starts, updates.shape, steps)
        in_place = donate and is_sole_owner(x)
        return self.slice_updated(x, starts, steps, updates, in_place)

    def slice_updated(
        self,
        x: Value,
        starts: tuple[int, ...],
        steps: tuple[int, ...],
        updates: Value,
        in_place: bool,
    ) -> Value:
        out = x.array if in_place else _copy(x.array)
        out[slice_index(starts, updates.shape, steps)] = updates.array
        return NumpyAdapter(out, x.dtype)

    def nonzero(self, x: Value) -> tuple[Value, ...]:
        found = x.array.nonzero()
        owned, integers = memory.owned, _INT64
        return tuple([NumpyAdapter(owned(i.astype(integers, copy=False)), int64) for i in found])


def _copy(array: Array) -> Array:
    return memory.cast(array, array.dtype)


def _add_rows(out: Array, rows: Array, updates: Array) -> None:
    # ``np.add.at`` element by element, for which it has a fast loop; a part at a time, as it takes
    # an index per element.
    width = math.prod(out.shape[1:])
    flat, updates = out.reshape(-1), updates.reshape(len(rows), width)
    columns, step = np.arange(width), max(1, 65536 // max(width, 1))
    for start in range(0, len(rows), step):
        part = rows[start : start + step, None] * np.int64(width) + columns
        np.add.at(flat, part.reshape(-1), updates[start : start + step].reshape(-1))


@functools.lru_cache(maxsize=1024)  # a loop has the same few places again and again
def slice_index(
    starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]
) -> tuple[slice, ...]:
    """The index for NumPy of what ``slice`` with these arguments takes, each a tuple of ints with
    one entry per axis."""
    return tuple(
        [
            slice(start, start + size) if step == 1 else _stepped(start, size, step)
            for start, size, step in zip(starts, sizes, steps)
        ]
    )


def _stepped(start: int, size: int, step: int) -> slice:
    stop = start + size * step
    # Going down to element 0 has no integer stop: -1 would count from the end.
    return slice(start, None if stop < 0 else stop, step)


def _differ_in_ones(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    # Then NumPy's reshape is a view of any strides; else it may copy, which is done into a block.
    return [n for n in x if n != 1] == [n for n in y if n != 1]
