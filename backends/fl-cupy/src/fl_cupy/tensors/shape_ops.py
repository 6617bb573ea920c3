"""Operations on places: views, joining, indexing, sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy

from fl_cupy.tensors.adapter import CupyAdapter
from fl_cupy.tensors.placement import on_device
from fl_tensor import rules
from fl_tensor.backend import TensorBackend

Value = CupyAdapter
Shape = tuple[int, ...]

#: What ``cupy.add.at`` adds in: devices have no atomic additions of short integers, and float16 is
#: accumulated in float32.
_ADDED_IN = {
    **dict.fromkeys(("bool", "int8", "int16", "uint8", "uint16"), "int32"),
    "float16": "float32",
}


class ShapeOps(TensorBackend):
    """Mixed into the backend."""

    @on_device
    def reshape(self, x: Value, shape: Shape) -> Value:
        return Value(x.array.reshape(shape), x.device)

    @on_device
    def permute(self, x: Value, axes: Shape) -> Value:
        return Value(x.array.transpose(axes), x.device)

    @on_device
    def broadcast_to(self, x: Value, shape: Shape) -> Value:
        return Value(cupy.broadcast_to(x.array, shape), x.device)

    @on_device
    def concatenate(self, xs: Sequence[Value], axis: int = 0) -> Value:
        return Value(cupy.concatenate([x.array for x in xs], axis), xs[0].device)

    @on_device
    def pad(self, x: Value, low: Shape, high: Shape, interior: Shape, value: Any = 0) -> Value:
        shape = rules.pad(x, low, high, interior, value).shape
        out = cupy.full(shape, value, x.array.dtype)
        out[_places(low, x.shape, tuple(between + 1 for between in interior))] = x.array
        return Value(out, x.device)

    @on_device
    def slice(self, x: Value, starts: Shape, sizes: Shape, steps: Shape) -> Value:
        rules.slice(x, starts, sizes, steps)  # CuPy cuts off what lies outside
        return Value(x.array[_places(starts, sizes, steps)], x.device)

    @on_device
    def slice_update(
        self, x: Value, starts: Shape, steps: Shape, updates: Value, donate: bool = False
    ) -> Value:
        rules.slice(x, starts, updates.shape, steps)
        out = x.array.copy()
        out[_places(starts, updates.shape, steps)] = updates.array
        return Value(out, x.device)

    @on_device
    def gather(self, x: Value, indices: Value, axis: int = 0) -> Value:
        shape = rules.gather(x, indices, axis).shape
        if 0 in shape:
            return Value(cupy.empty(shape, x.array.dtype), x.device)
        return Value(cupy.take(x.array, indices.array, axis), x.device)

    @on_device
    def scatter(
        self, x: Value, indices: Value, updates: Value, axis: int = 0, mode: str = "set",
        donate: bool = False,
    ) -> Value:  # fmt: skip
        rules.scatter(x, indices, updates, axis, mode, donate)
        if not updates.array.size:
            return x
        at = indices.array.reshape(-1)
        rows = updates.array.reshape(*x.shape[:axis], at.size, *x.shape[axis + 1 :])
        first, rows = cupy.moveaxis(x.array, axis, 0), cupy.moveaxis(rows, axis, 0)
        changed = (_added if mode == "add" else _replaced)(first, at, rows)
        return Value(cupy.moveaxis(changed, 0, axis), x.device)

    @on_device
    def sort(self, x: Value, axis: int = -1, descending: bool = False) -> Value:
        found = cupy.sort(x.array, axis)
        return Value(cupy.flip(found, axis) if descending else found, x.device)

    @on_device
    def argsort(self, x: Value, axis: int = -1, descending: bool = False) -> Value:
        keys = x.array.view("uint8") if x.dtype.kind == "b" else x.array
        if descending:  # equal elements keep their order: that of the reversed array, reversed
            order = cupy.argsort(cupy.flip(keys, axis), axis, "stable")
            found = x.shape[axis] - 1 - cupy.flip(order, axis)
        else:
            found = cupy.argsort(keys, axis, "stable")
        return Value(found.astype("int64", copy=False), x.device)

    @on_device
    def nonzero(self, x: Value) -> tuple[Value, ...]:
        found = cupy.nonzero(x.array) if x.shape else ()
        return tuple(Value(places.astype("int64", copy=False), x.device) for places in found)


def _places(starts: Shape, sizes: Shape, steps: Shape) -> tuple[slice, ...]:
    places = []
    for start, size, step in zip(starts, sizes, steps):
        stop = start + size * step
        # Going down to element 0 has no integer stop: -1 would count from the end.
        places.append(slice(start, None if stop < 0 else stop, step) if size else slice(0, 0))
    return tuple(places)


def _added(x: Any, at: Any, rows: Any) -> Any:
    """``x`` with rows added at places of axis 0."""
    out = x.reshape(len(x), -1).astype(_ADDED_IN.get(x.dtype.name, x.dtype), "C")
    more = rows.reshape(at.size, -1).astype(out.dtype, copy=False)
    if x.dtype.kind == "c":  # both parts by themselves
        part = out.real.dtype
        cupy.add.at(out.view(part), at, cupy.ascontiguousarray(more).view(part))
    else:
        cupy.add.at(out, at, more)
    return out.astype(x.dtype, copy=False).reshape(x.shape)


def _replaced(x: Any, at: Any, rows: Any) -> Any:
    """``x`` with rows written to places of axis 0; of duplicates the last stays.

    Writes to one place have no order on a device. So each place first finds the number of its last
    row, from 1 on; the largest of unsigned numbers is an atomic operation.
    """
    if at.size == 1:
        out = x.copy()
        out[at] = rows
        return out
    last = cupy.zeros(len(x), "uint64")
    cupy.maximum.at(last, at, cupy.arange(1, at.size + 1, dtype="uint64"))
    last = last.astype("int64")
    written = (last > 0).reshape(-1, *[1] * (x.ndim - 1))
    return cupy.where(written, rows.take(cupy.maximum(last - 1, 0), 0), x)
