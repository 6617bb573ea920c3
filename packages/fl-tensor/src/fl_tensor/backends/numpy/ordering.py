"""Sorting, selecting and counting, in NumPy.

NumPy's fast sorts and partitions are not stable. So elements become integers in the same order,
with the position of each in the bits below: no two are equal then. Orders of ``argsort`` and
``topk`` are the same as those of a stable sort. Small arrays are sorted by NumPy's stable sort.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fl_tensor.backends.numpy import errstate, memory
from fl_tensor.backends.numpy.adapter import NumpyAdapter
from fl_tensor.backends.numpy.ufuncs import sortable
from fl_tensor.derived import statistics
from fl_tensor.derived.precision import in_float32
from fl_tensor.derived_ops import DerivedOps
from fl_tensor.dtypes import bfloat16, int64

Value = NumpyAdapter
Array: TypeAlias = np.ndarray[Any, Any]

#: Elements up to which a stable sort costs less than what prepares a faster one.
_FEW = 1024
#: Elements of rows that are selected from at a time: what is made of them stays in cache.
_PART = 1 << 16


class Ordering(DerivedOps):
    """Mixed into the backend."""

    def sort(self, x: Value, axis: int = -1, descending: bool = False) -> Value:
        out, keys = memory.cast(x.array, x.array.dtype), sortable(x)
        kind = _kind(keys)
        if x.dtype is bfloat16:
            out[...] = np.sort(keys, axis, kind)
        else:
            out.sort(axis, kind)
        return NumpyAdapter(np.flip(out, axis) if descending else out, x.dtype)

    def argsort(self, x: Value, axis: int = -1, descending: bool = False) -> Value:
        order = _order(np.moveaxis(_keys(sortable(x), descending), axis, -1))
        order = np.moveaxis(order, -1, axis).astype(np.int64, copy=False)
        return NumpyAdapter(memory.owned(order), int64)

    def topk(self, x: Value, k: int, axis: int = -1, largest: bool = True) -> tuple[Value, Value]:
        size = x.shape[axis]
        if x.array.size < _FEW or not 0 < k <= size:
            found: tuple[Value, Value] = super().topk(x, k, axis, largest)
            return found
        moved = np.moveaxis(sortable(x), axis, -1)
        rows, step = moved.reshape(-1, size), max(_PART // size, 1)
        parts = [
            _first(_keys(rows[start : start + step], largest), k)
            for start in range(0, len(rows), step)
        ]
        places = np.concatenate(parts).reshape(*moved.shape[:-1], k)
        places = np.moveaxis(places, -1, axis)
        values = np.take_along_axis(x.array, places, axis)
        return (
            NumpyAdapter(memory.owned(values), x.dtype),
            NumpyAdapter(memory.owned(places), int64),
        )

    @in_float32
    def quantile(
        self,
        x: Value,
        q: tuple[float, ...],
        axis: tuple[int, ...],
        keepdims: bool = False,
        method: str = "linear",
    ) -> Any:
        statistics.check_shares("quantile", q, method)
        rows, shape = statistics.rows(self, x, axis, keepdims)
        size = rows.shape[-1]
        part, start = memory.cast(rows.array, rows.array.dtype), 0
        # One place after the other, as NumPy has a vectorised partition for a single one. NaN comes
        # last.
        for place in sorted({*statistics.places(q, size, method), size - 1}) if size else ():
            part[..., start:].partition(place - start)
            start = place + 1
        return statistics.at_shares(self, NumpyAdapter(part, x.dtype), shape, q, method)

    def searchsorted(self, x: Value, values: Value, side: str = "left") -> Value:
        if side not in ("left", "right") or len(x.shape) != 1:
            return super().searchsorted(x, values, side)  # says what is wrong
        found = np.searchsorted(sortable(x), sortable(values), side)
        return NumpyAdapter(memory.owned(np.asarray(found, np.int64)), int64)

    def bincount(self, x: Value, length: int, weights: Value | None = None) -> Value:
        if weights is not None or not x.dtype.is_integer:
            return super().bincount(x, length, weights)
        flat = x.array.reshape(-1).astype(np.intp, copy=False)
        # Negative numbers are NumPy's to find; one beyond the last would take memory before.
        within = not flat.size or flat.max() < length
        try:
            found = np.bincount(flat if within else [-1], minlength=length)
        except ValueError:
            message = f"[bincount] x {x.shape}: a number is not in 0 .. {length - 1}"
            raise IndexError(message) from None
        return NumpyAdapter(memory.owned(found.astype(np.int64, copy=False)), int64)

    def histogram(self, x: Value, edges: Value, weights: Value | None = None) -> Value:
        bounds = sortable(edges)
        if weights is not None or bounds.ndim != 1 or len(bounds) < 2 or bounds[-1] != bounds[-1]:
            return super().histogram(x, edges, weights)
        # How many are below each edge, but not above the last one.
        values = sortable(x)
        ordered = np.sort(values, None, _kind(values))
        below = np.searchsorted(ordered, bounds)
        below[-1] = np.searchsorted(ordered, bounds[-1], "right")
        return NumpyAdapter(memory.owned(np.diff(below).astype(np.int64, copy=False)), int64)


def _kind(a: Array) -> Any:
    # Equal elements are also the same, except 0.0 and -0.0: a stable sort keeps their order.
    # NumPy's faster sort of float16 leaves out of order what has both (2.4, AVX-512).
    if a.dtype.kind != "f":
        return None
    zeros = a[a == 0]
    return "stable" if np.signbit(zeros).any() else None


@errstate.quiet
def _keys(a: Array, descending: bool) -> Array:
    # Integers that compare as the elements: NaN is the largest, -0.0 equals 0.0.
    if a.dtype.kind == "b":
        a = a.view(np.uint8)
    elif a.dtype.kind == "f":
        numbers = np.asarray(a + a.dtype.type(0))  # which has no -0.0
        bits = numbers.view(f"i{a.itemsize}")
        most = np.iinfo(bits.dtype).max
        # Floats are a sign and a magnitude: that of negative ones is inverted.
        keys = bits >> (8 * a.itemsize - 1)
        keys &= most
        keys ^= bits
        missing = np.isnan(numbers)
        if missing.any():
            keys[missing] = most
        return np.invert(keys, out=keys) if descending else keys
    return ~a if descending else a


def _first(rows: Array, k: int) -> Array:
    """The places of the ``k`` smallest integers of each row, int64, in the order of a stable
    sort."""
    limit = np.partition(rows, k - 1)[:, k - 1 : k]
    chosen = rows <= limit
    if np.count_nonzero(chosen) > len(rows) * k:
        # Of those that equal the last one, the first.
        inside, ties = rows < limit, rows == limit
        left = k - np.count_nonzero(inside, 1, keepdims=True)
        chosen = inside | (ties & (np.cumsum(ties, 1) <= left))
    places = np.flatnonzero(chosen).reshape(-1, k) % rows.shape[1]
    order = _order(np.take_along_axis(rows, places, 1))
    return np.take_along_axis(places, order, 1).astype(np.int64, copy=False)


def _order(keys: Array) -> Array:
    """The order of integers along the last axis; equal ones keep theirs."""
    size = keys.shape[-1]
    if keys.size < _FEW or size < 2 or keys.itemsize < 4:  # NumPy has a radix sort for short ones
        return np.argsort(keys, -1, kind="stable")
    low, high = int(keys.min()), int(keys.max())
    bits, span = (size - 1).bit_length(), (high - low).bit_length()
    if span + bits <= 64:
        above = keys.astype(np.uint64) - np.uint64(low % (1 << 64))
        return _packed_order(above, np.arange(size, dtype=np.uint64), bits, span)
    # Too many bits for both: equal elements of an order that is not stable are sorted again.
    order = np.argsort(keys, -1)
    found = np.take_along_axis(keys, order, -1)
    differ = found[..., 1:] != found[..., :-1]
    if differ.all():
        return order
    groups = np.zeros(keys.shape, np.uint64)
    np.cumsum(differ, -1, out=groups[..., 1:])
    return _packed_order(groups, order.astype(np.uint64), bits, bits)


def _packed_order(keys: Array, places: Array, bits: int, span: int) -> Array:
    # ``keys`` of ``span`` bits, above ``places`` of ``bits``.
    kind = np.uint32 if span + bits <= 32 else np.uint64
    packed = keys.astype(kind, copy=False) << kind(bits)
    packed |= places.astype(kind, copy=False)
    packed.sort(-1)
    packed &= kind((1 << bits) - 1)
    return packed
