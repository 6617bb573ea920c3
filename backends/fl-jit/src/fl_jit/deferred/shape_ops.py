"""Deferred creation, shape changes, concatenation, slicing, gather and scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fl_jit.deferred import fast_paths
from fl_jit.deferred.deferral import DeferredBackend, Value, defer
from fl_jit.traces.cache_keys import exact
from fl_jit.traces.lazy import Stream
from fl_tensor import CPU, Device, dtypes, rules
from fl_tensor.dtypes import DType
from fl_tensor.extend import Scalar
from fl_tensor.extend.numpy import NumpyBackend, is_sole_owner

_slice = NumpyBackend.slice


class DeferredShapeOps(DeferredBackend):
    """Operations that move elements without arithmetic."""

    # creation

    def full(self, shape: tuple[int, ...], value: Scalar, dtype: DType, device: Device) -> Value:
        if math.prod(shape) < self.smallest or not self._should_defer_creation(shape):
            return NumpyBackend.full(self, shape, value, dtype, device)
        scalar = NumpyBackend.full(self, (), value, dtype, device)
        return self._pending.record("full", (scalar,), (), tuple(shape), dtype)

    def random_bits(self, seed: int, offset: int, shape: tuple[int, ...], device: Device) -> Value:
        if not self._should_defer_creation(shape):
            return NumpyBackend.random_bits(self, seed, offset, shape, device)
        stream = Stream(seed, offset)
        return self._pending.record("random_bits", (stream,), (), tuple(shape), dtypes.int32)

    # shape

    @fast_paths.reshape
    @defer("x")
    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        rules.reshape(x, shape)
        return self._pending.record("reshape", (x,), (tuple(shape),), tuple(shape), x.dtype)

    @defer("x")
    def permute(self, x: Value, axes: tuple[int, ...]) -> Value:
        shape = rules.permute(x, axes).shape
        return self._pending.record("permute", (x,), (tuple(axes),), shape, x.dtype)

    @defer("x")
    def broadcast_to(self, x: Value, shape: tuple[int, ...]) -> Value:
        rules.broadcast_to(x, shape)
        return self._pending.record("broadcast_to", (x,), (tuple(shape),), tuple(shape), x.dtype)

    def concatenate(self, xs: Sequence[Value], axis: int = 0) -> Value:
        if not self._should_defer(*xs):
            return NumpyBackend.concatenate(self, xs, axis)
        spec = rules.concatenate(xs, axis)
        return self._pending.record("concatenate", tuple(xs), (axis,), spec.shape, spec.dtype)

    @defer("x")
    def pad(
        self,
        x: Value,
        low: tuple[int, ...],
        high: tuple[int, ...],
        interior: tuple[int, ...],
        value: Scalar = 0,
    ) -> Value:
        shape = rules.pad(x, low, high, interior, value).shape
        parameters = (tuple(low), tuple(high), tuple(interior), value)
        if not value:  # which may be -0.0
            parameters = exact(parameters)
        return self._pending.record("pad", (x,), parameters, shape, x.dtype)

    @fast_paths.slice
    def slice(
        self, x: Value, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]
    ) -> Value:
        if not self._should_defer(x):
            return _slice(self, x, starts, sizes, steps)
        shape = rules.slice(x, starts, sizes, steps).shape
        parameters = (tuple(starts), tuple(sizes), tuple(steps))
        return self._pending.record("slice", (x,), parameters, shape, x.dtype)

    def gather(self, x: Value, indices: Value, axis: int = 0) -> Value:
        shape = rules.gather(x, indices, axis).shape
        # A few rows of a large table are a small operation.
        is_small = math.prod(shape) < self.smallest and self.is_ready(x) and self.is_ready(indices)
        if is_small or not self._should_defer(x):
            return NumpyBackend.gather(self, x, indices, axis)
        self._check_indices("gather", x, indices, axis)
        return self._pending.record("gather", (x, indices), (axis,), shape, x.dtype)

    def scatter(
        self,
        x: Value,
        indices: Value,
        updates: Value,
        axis: int = 0,
        mode: str = "set",
        donate: bool = False,
    ) -> Value:
        rules.scatter(x, indices, updates, axis, mode)
        is_ready = self.is_ready(x)
        # A small table is cheap to copy.
        is_donated = donate and is_ready and x.array.size >= self.smallest
        if is_donated or not self._should_defer(x, updates):
            if donate:
                self._run_readers(x)
            in_place = donate and is_sole_owner(x)
            return self.scattered(x, indices, updates, axis, mode, in_place)
        self._check_indices("scatter", x, indices, axis)
        parameters = (axis, mode)
        return self._pending.record("scatter", (x, indices, updates), parameters, x.shape, x.dtype)

    def slice_update(
        self,
        x: Value,
        starts: tuple[int, ...],
        steps: tuple[int, ...],
        updates: Value,
        donate: bool = False,
    ) -> Value:
        rules.slice(x, starts, updates.shape, steps)
        if not self.is_ready(x) or (not donate and self._should_defer(updates)):
            # The starts are operands: a loop over positions is one structure.
            begin = [super(DeferredShapeOps, self).full((), s, dtypes.int64, CPU) for s in starts]
            record, operands = self._pending.record, (x, updates, *begin)
            return record("slice_update", operands, (tuple(steps),), x.shape, x.dtype)
        if donate:
            self._run_readers(x)
        in_place = donate and is_sole_owner(x)
        return self.slice_updated(x, starts, steps, updates, in_place)

    def _run_readers(self, x: Value) -> None:
        # Readers of a large array run before the array is overwritten, which avoids a copy.
        if x.array.size >= self.smallest and self._pending.reads(x):
            self._pending.run()

    def _check_indices(self, op: str, x: Value, indices: Value, axis: int) -> None:
        # Checks that depend on data run before the call is deferred. The traceback then points to
        # the user's call, and not to the line that reads the result.
        positions = indices.array
        if positions.size and (positions.min() < 0 or positions.max() >= x.shape[axis]):
            raise IndexError(f"[{op}] x {x.shape}: an index is out of range for axis {axis}")
