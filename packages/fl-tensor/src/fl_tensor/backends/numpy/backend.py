"""The primitives in NumPy; results of ``small_bytes`` or more lie in the manager's blocks."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from fl_memory import selection
from fl_tensor import rules
from fl_tensor.backend import TensorBackend
from fl_tensor.backends.numpy import elementary, memory, philox, quiet
from fl_tensor.backends.numpy.adapter import (
    FROM_NUMPY,
    SUPPORTED,
    TO_NUMPY,
    NumpyAdapter,
    adapt,
    is_sole_owner,
)
from fl_tensor.backends.numpy.contractions import Contractions
from fl_tensor.backends.numpy.fft import Fft
from fl_tensor.backends.numpy.linalg import Linalg
from fl_tensor.backends.numpy.ufuncs import (
    binary,
    owned,
    reduction,
    rounding,
    single,
    sortable,
    unary,
    wide,
)
from fl_tensor.capabilities import CAPABILITIES
from fl_tensor.device import CPU, Device
from fl_tensor.dtypes import HALF, DType, bfloat16, int64, sum_dtype
from fl_tensor.errors import ArgumentError
from fl_tensor.roles import Scalar

Value = NumpyAdapter
Array: TypeAlias = np.ndarray[Any, Any]

_INT64 = np.dtype(np.int64)


class NumpyBackend(Contractions, Linalg, Fft, TensorBackend):
    """Eager arithmetic on the host."""

    CONTRACT = (1, 1)
    name = "numpy"
    dtypes: ClassVar[frozenset[DType]] = SUPPORTED
    dtype_hints: ClassVar[Mapping[DType, str]] = {bfloat16: "install fl-tensor[bfloat16]"}
    capabilities = frozenset(CAPABILITIES)
    checks_shapes = True
    max_ndim = 64

    def devices(self) -> list[Device]:
        return [CPU]

    def synchronize(self, device: Device) -> None:
        """Every call has finished when it returns."""

    # creation and transfer

    def full(self, shape: tuple[int, ...], value: Scalar, dtype: DType, device: Device) -> Value:
        out = memory.empty(shape, TO_NUMPY[dtype])
        quiet.call(out.fill, value)
        return NumpyAdapter(out, dtype) if shape else single(out, dtype)

    def arange(
        self, start: Scalar, stop: Scalar, step: Scalar, dtype: DType, device: Device
    ) -> Value:
        (count,) = rules.arange(start, stop, step, dtype, device).shape
        if dtype.is_floating or isinstance(start, float) or isinstance(step, float):
            values: Any = start + np.arange(count, dtype=np.float64) * step
            return adapt(memory.owned(values.astype(TO_NUMPY[dtype])), dtype)
        values = np.arange(start, start + count * step, step, dtype=TO_NUMPY[dtype])
        return adapt(memory.owned(values), dtype)

    def from_host(
        self,
        data: memoryview,
        shape: tuple[int, ...],
        dtype: DType,
        device: Device,
        blocking: bool = True,
    ) -> Value:
        out = _copy(np.frombuffer(data, TO_NUMPY[dtype]).reshape(shape))
        return NumpyAdapter(out, dtype) if shape else single(out, dtype)

    def to_host(self, x: Value, blocking: bool = True) -> memoryview:
        if x.array.nbytes < selection.always_small:
            return memoryview(x.array.tobytes())
        flat: Any = np.ascontiguousarray(x.array).reshape(-1).view(np.uint8)
        return memoryview(flat).toreadonly()

    def from_dlpack(self, source: Any, device: Device) -> Value:
        from fl_tensor.backends.numpy import interop

        return interop.from_dlpack(source)

    def random_bits(self, seed: int, offset: int, shape: tuple[int, ...], device: Device) -> Value:
        out = memory.empty(shape, np.dtype(np.int32))
        philox.words(seed, offset, out.reshape(-1).view(np.uint32))
        return NumpyAdapter(out)

    # shape

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        if x.array.flags.c_contiguous or _differ_in_ones(x.array.shape, shape):
            return NumpyAdapter(x.array.reshape(shape), x.dtype)
        out = memory.empty(x.shape, x.array.dtype)
        np.copyto(out, x.array)
        return NumpyAdapter(out.reshape(shape), x.dtype)

    def permute(self, x: Value, axes: tuple[int, ...]) -> Value:
        return NumpyAdapter(x.array.transpose(axes), x.dtype)

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
        array = x.array[_places(starts, sizes, steps)]
        if array.shape != sizes or min(starts) < 0:
            rules.slice(x, starts, sizes, steps)  # says what is out of range
        return NumpyAdapter(array, x.dtype)

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
        return self._scatter(x, indices, updates, axis, mode, in_place)

    def _scatter(
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
        return self._slice_update(x, starts, steps, updates, in_place)

    def _slice_update(
        self,
        x: Value,
        starts: tuple[int, ...],
        steps: tuple[int, ...],
        updates: Value,
        in_place: bool,
    ) -> Value:
        out = x.array if in_place else _copy(x.array)
        out[_places(starts, updates.shape, steps)] = updates.array
        return NumpyAdapter(out, x.dtype)

    def sort(self, x: Value, axis: int = -1, descending: bool = False) -> Value:
        out = _copy(x.array)
        if x.dtype is bfloat16:
            out[...] = np.sort(sortable(x), axis, kind="stable")
        else:
            out.sort(axis, kind="stable")
        return NumpyAdapter(np.flip(out, axis) if descending else out, x.dtype)

    def argsort(self, x: Value, axis: int = -1, descending: bool = False) -> Value:
        keys = sortable(x)
        if not descending:
            order = np.argsort(keys, axis, kind="stable")
        else:  # sorting the reversed array and reversing again keeps equal elements in order
            reverse = np.argsort(np.flip(keys, axis), axis, kind="stable")
            order = x.shape[axis] - 1 - np.flip(reverse, axis)
        return NumpyAdapter(memory.owned(order.astype(np.int64, copy=False)), int64)

    def nonzero(self, x: Value) -> tuple[Value, ...]:
        found = x.array.nonzero()
        owned, integers = memory.owned, _INT64
        return tuple([NumpyAdapter(owned(i.astype(integers, copy=False)), int64) for i in found])

    @quiet.quiet
    def cumulative_sum(self, x: Value, axis: int = -1) -> Value:
        dtype = sum_dtype(x.dtype)
        if dtype in HALF:
            total = np.cumsum(x.array, axis, np.float32)
            return NumpyAdapter(memory.cast(total, TO_NUMPY[dtype]), dtype)
        out = memory.empty(x.shape, TO_NUMPY[dtype])
        np.cumsum(x.array, axis, TO_NUMPY[dtype], out)
        return NumpyAdapter(out, dtype)

    # unary

    negative = unary(np.negative)
    _real_absolute = unary(np.absolute)
    _complex_absolute = owned(np.absolute)
    _sign = unary(np.sign)
    exp = unary(np.exp)
    _real_expm1 = unary(np.expm1)
    _complex_expm1 = owned(elementary.expm1)
    log = unary(np.log)
    _real_log1p = unary(np.log1p)
    _complex_log1p = owned(elementary.log1p)
    sqrt = unary(np.sqrt)
    sin = unary(np.sin)
    cos = unary(np.cos)
    _real_tanh = unary(np.tanh)
    _complex_tanh = owned(elementary.tanh)
    floor = rounding(np.floor)
    ceil = rounding(np.ceil)
    round = rounding(np.rint)
    bitwise_invert = unary(np.invert)

    real = owned(np.real)
    imag = owned(np.imag)
    conj = unary(np.conjugate)

    def sign(self, x: Value) -> Value:
        found: Value = self._sign(x)
        if x.dtype is bfloat16:  # the ufunc leaves -0.0 as it is: the others make 0.0 of it
            found = self.add(found, self.constant(0.0, found))
        return found

    # Derived operations for which NumPy has functions that are right to the last sign of zero.
    tan = unary(np.tan)
    asin = unary(np.arcsin)
    acos = unary(np.arccos)
    atan = unary(np.arctan)
    sinh = unary(np.sinh)
    cosh = unary(np.cosh)
    asinh = unary(np.arcsinh)
    acosh = unary(np.arccosh)
    atanh = unary(np.arctanh)
    log2 = unary(np.log2)
    log10 = unary(np.log10)
    signbit = owned(np.signbit)

    def absolute(self, x: Value) -> Value:
        return self._complex_absolute(x) if x.dtype.kind == "c" else self._real_absolute(x)

    def expm1(self, x: Value) -> Value:
        return self._complex_expm1(x) if x.dtype.kind == "c" else self._real_expm1(x)

    def tanh(self, x: Value) -> Value:
        return self._complex_tanh(x) if x.dtype.kind == "c" else self._real_tanh(x)

    def log1p(self, x: Value) -> Value:
        return self._complex_log1p(x) if x.dtype.kind == "c" else self._real_log1p(x)

    @quiet.quiet
    def erf(self, x: Value) -> Value:
        return adapt(memory.owned(elementary.erf(x.array).astype(x.array.dtype)), x.dtype)

    # binary

    add = binary(np.add, scalar=operator.add)
    subtract = binary(np.subtract, scalar=operator.sub)
    multiply = binary(np.multiply, scalar=operator.mul)
    divide = binary(np.true_divide, scalar=operator.truediv)
    _integer_floor_divide = binary(np.floor_divide)
    remainder = binary(np.remainder)
    _power = binary(np.power)
    atan2 = binary(np.arctan2)
    maximum = binary(np.maximum)
    minimum = binary(np.minimum)
    bitwise_and = binary(np.bitwise_and)
    bitwise_or = binary(np.bitwise_or)
    bitwise_xor = binary(np.bitwise_xor)
    bitwise_left_shift = binary(np.left_shift)
    bitwise_right_shift = binary(np.right_shift)
    equal = binary(np.equal, FROM_NUMPY[np.dtype(bool)])
    less = binary(np.less, FROM_NUMPY[np.dtype(bool)])

    @quiet.quiet
    def floor_divide(self, x: Value, y: Value) -> Value:
        if x.dtype.is_integer:
            return self._integer_floor_divide(x, y)
        return adapt(memory.owned(np.asarray(elementary.floor_divide(x.array, y.array))), x.dtype)

    def power(self, x: Value, y: Value) -> Value:
        if x.dtype.is_integer and x.array.size and y.array.size and y.array.min() < 0:
            raise ArgumentError(
                f"[power] an integer power of {y.array.min()}: exponents of integers may not be "
                f"negative; use floating operands"
            )
        return self._power(x, y)

    # choice and conversion

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        c, a, b = condition.array, x.array, y.array
        shape = a.shape
        if not c.shape == shape == b.shape:
            shape = rules.where(condition, x, y).shape
        out = memory.empty(shape, a.dtype)
        np.copyto(out, b)
        np.copyto(out, a, where=c)
        return NumpyAdapter(out, x.dtype)

    def cast(self, x: Value, dtype: DType) -> Value:
        return NumpyAdapter(memory.cast(x.array, TO_NUMPY[dtype]), dtype)

    # reductions

    sum = reduction(np.add, accumulate=True)
    prod = reduction(np.multiply, accumulate=True)
    max = reduction(np.maximum, accumulate=False)
    min = reduction(np.minimum, accumulate=False)

    def argmax(self, x: Value, axis: int, keepdims: bool = False) -> Value:
        found = np.argmax(x.array, axis, keepdims=keepdims)
        return adapt(memory.owned(np.asarray(found, _INT64)), int64)


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
def _places(
    starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]
) -> tuple[slice, ...]:
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
