"""``NumpyBackend``: creation, host transfer, elementwise operations and reductions.

Shape operations, contractions, linear algebra and FFT are mixins. Large results are in blocks of
the memory manager.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np

from fl_memory import selection
from fl_tensor import rules
from fl_tensor.backend import TensorBackend
from fl_tensor.backends.numpy import elementary, errstate, memory, philox, sums
from fl_tensor.backends.numpy.adapter import (
    FROM_NUMPY,
    SUPPORTED,
    TO_NUMPY,
    NumpyAdapter,
    adapt,
)
from fl_tensor.backends.numpy.contractions import Contractions
from fl_tensor.backends.numpy.extremes import Extremes
from fl_tensor.backends.numpy.fft import Fft
from fl_tensor.backends.numpy.linalg import Linalg
from fl_tensor.backends.numpy.ordering import Ordering
from fl_tensor.backends.numpy.shape_ops import ShapeOps
from fl_tensor.backends.numpy.ufuncs import (
    binary,
    owned,
    reduction,
    rounding,
    single,
    unary,
)
from fl_tensor.capabilities import CAPABILITIES
from fl_tensor.device import CPU, Device
from fl_tensor.dtypes import HALF, DType, bfloat16, int64, sum_dtype
from fl_tensor.errors import ArgumentError
from fl_tensor.exchange import arrays, dlpack
from fl_tensor.roles import Scalar

Value = NumpyAdapter
Array: TypeAlias = np.ndarray[Any, Any]

_INT64 = np.dtype(np.int64)


class NumpyBackend(ShapeOps, Ordering, Contractions, Linalg, Fft, Extremes, TensorBackend):
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
        errstate.call(out.fill, value)
        return NumpyAdapter(out, dtype) if shape else single(out, dtype)

    def arange(
        self, start: Scalar, stop: Scalar, step: Scalar, dtype: DType, device: Device
    ) -> Value:
        if type(start) is type(stop) is type(step) is int and dtype.is_integer:
            return adapt(memory.owned(np.arange(start, stop, step, TO_NUMPY[dtype])), dtype)
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
        source = np.frombuffer(data, TO_NUMPY[dtype])
        if source.nbytes < selection.always_small:
            out = source.copy().reshape(shape)
        else:
            out = memory.cast(source.reshape(shape), source.dtype)
        return NumpyAdapter(out, dtype) if shape else single(out, dtype)

    def to_host(self, x: Value, blocking: bool = True) -> memoryview:
        if x.array.nbytes < selection.always_small:
            return memoryview(x.array.tobytes())
        return arrays.to_bytes(x.array)

    def from_dlpack(self, source: Any, device: Device) -> Value | None:
        array = dlpack.from_dlpack(source)
        return NumpyAdapter(array) if arrays.is_even(array) else None

    def random_bits(self, seed: int, offset: int, shape: tuple[int, ...], device: Device) -> Value:
        out = memory.empty(shape, np.dtype(np.int32))
        philox.words(seed, offset, out.reshape(-1).view(np.uint32))
        return NumpyAdapter(out)

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

    @errstate.quiet
    def erf(self, x: Value) -> Value:
        return adapt(memory.owned(elementary.erf(x.array).astype(x.array.dtype)), x.dtype)

    # binary

    add = binary(np.add, scalar=operator.add)
    subtract = binary(np.subtract, scalar=operator.sub)
    multiply = binary(np.multiply, scalar=operator.mul)
    divide = binary(np.true_divide, scalar=operator.truediv)
    floor_divide = binary(np.floor_divide)
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
        if math.prod(shape) * a.itemsize < selection.always_small:
            return adapt(np.where(c, a, b), x.dtype)
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

    @errstate.quiet
    def cumulative_sum(self, x: Value, axis: int = -1) -> Value:
        dtype, axis = sum_dtype(x.dtype), axis % max(len(x.shape), 1)
        if dtype in HALF:
            total = np.empty(x.shape, np.float32)
            sums.cumulative(x.array, axis, total)
            return NumpyAdapter(memory.cast(total, TO_NUMPY[dtype]), dtype)
        out = memory.empty(x.shape, TO_NUMPY[dtype])
        sums.cumulative(x.array, axis, out)
        return NumpyAdapter(out, dtype)

    def argmax(self, x: Value, axis: int, keepdims: bool = False) -> Value:
        found = np.argmax(x.array, axis, keepdims=keepdims)
        return adapt(memory.owned(np.asarray(found, _INT64)), int64)
