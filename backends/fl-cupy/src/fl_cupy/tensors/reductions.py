"""Reductions and running sums.

CuPy may add rows one after the other, with an error that grows with their number. So sums, products
and running sums in 16 and 32 bits are accumulated in a wider dtype and rounded once; memory bounds
their speed, and the wider arithmetic costs little. Wide dtypes are added in blocks of rows, then
the results of the blocks in the same way (N. J. Higham, "The accuracy of floating point summation",
1993).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy

from fl_cupy.tensors.adapter import TO_CUPY, CupyAdapter
from fl_cupy.tensors.placement import on_device
from fl_tensor import rules
from fl_tensor.backend import TensorBackend
from fl_tensor.dtypes import DType, complex64, float16, float32, int64, sum_dtype

Value = CupyAdapter

#: Rows that are added one after the other.
BLOCK = 16
_WIDE = {float16: "float32", float32: "float64", complex64: "complex128"}


def _accumulator(dtype: DType) -> Any:
    return _WIDE.get(dtype) or TO_CUPY[sum_dtype(dtype)]


def accumulation(function: Callable[..., Any]) -> Any:
    """Sums and products."""

    @on_device
    def operation(
        self: TensorBackend, x: Value, axis: tuple[int, ...], keepdims: bool = False
    ) -> Value:
        dtype = TO_CUPY[sum_dtype(x.dtype)]
        if not axis:
            return Value(x.array.astype(dtype), x.device)
        total = function(x.array, axis, _accumulator(x.dtype), None, keepdims)
        return Value(total.astype(dtype, copy=False), x.device)

    return operation


def extreme(name: str, function: Callable[..., Any]) -> Any:
    """The largest and the smallest. CuPy refuses empty arrays, also where the result is empty."""

    @on_device
    def operation(
        self: TensorBackend, x: Value, axis: tuple[int, ...], keepdims: bool = False
    ) -> Value:
        if not axis:
            return x
        if not x.array.size:
            shape = rules.selection(name, x, axis, keepdims, x.dtype).shape
            return Value(cupy.empty(shape, x.array.dtype), x.device)
        return Value(function(x.array, axis, None, keepdims), x.device)

    return operation


def _sum(x: Any, axis: tuple[int, ...], dtype: Any, out: Any, keepdims: bool) -> Any:
    if x.dtype.kind in "fc" and x.dtype == dtype:
        for each in axis:
            x = _rows_in_blocks(x, each)
    return cupy.sum(x, axis, dtype, out, keepdims)


def _rows_in_blocks(x: Any, axis: int) -> Any:
    """At most ``BLOCK`` rows along ``axis`` with the same sum."""
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    rows = (slice(None),) * axis
    while (size := x.shape[axis]) > BLOCK:
        count, left = divmod(size, BLOCK)
        whole = x[(*rows, slice(size - left))].reshape(*before, BLOCK, count, *after)
        made = cupy.sum(whole, axis)
        if left:
            rest = x[(*rows, slice(size - left, None))]
            made[(*rows, slice(1))] += cupy.sum(rest, axis, keepdims=True)
        x = made
    return x


class Reductions(TensorBackend):
    """Mixed into the backend."""

    sum, prod = accumulation(_sum), accumulation(cupy.prod)
    max, min = extreme("max", cupy.amax), extreme("min", cupy.amin)

    @on_device
    def argmax(self, x: Value, axis: int, keepdims: bool = False) -> Value:
        if not x.array.size:
            shape = rules.selection("argmax", x, (axis,), keepdims, int64).shape
            return Value(cupy.empty(shape, "int64"), x.device)
        found = cupy.argmax(x.array, axis, keepdims=keepdims)
        return Value(found.astype("int64", copy=False), x.device)

    @on_device
    def cumulative_sum(self, x: Value, axis: int = -1) -> Value:
        total = cupy.cumsum(x.array, axis, _accumulator(x.dtype))
        return Value(total.astype(TO_CUPY[sum_dtype(x.dtype)], copy=False), x.device)
