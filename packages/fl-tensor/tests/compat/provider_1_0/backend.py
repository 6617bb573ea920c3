"""The required primitives of tensor 1.0."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import fl_tensor as ft
from provider_1_0 import philox
from provider_1_0.value import TO_NUMPY, Value, made

Shape = tuple
quiet = np.errstate(all="ignore")


def wide(dtype: ft.DType) -> ft.DType:
    return dtype if dtype is ft.float32 else ft.int64


def unary(function: Any) -> Any:
    @quiet
    def operation(self: Any, x: Value) -> Value:
        return made(function(x.array), x.dtype)

    return operation


def rounding(function: Any) -> Any:
    def operation(self: Any, x: Value) -> Value:
        return made(function(x.array), x.dtype) if x.dtype is ft.float32 else x

    return operation


def binary(function: Any, result: ft.DType | None = None) -> Any:
    @quiet
    def operation(self: Any, x: Value, y: Value) -> Value:
        return made(function(x.array, y.array), result or x.dtype)

    return operation


def reduction(function: Any, accumulates: bool) -> Any:
    @quiet
    def operation(self: Any, x: Value, axis: Shape, keepdims: bool = False) -> Value:
        options: Any = {"axis": axis, "keepdims": keepdims}
        dtype = wide(x.dtype) if accumulates else x.dtype
        if accumulates:
            options["dtype"] = np.float64 if dtype is ft.float32 else np.int64
        return made(function.reduce(x.array, **options), dtype)

    return operation


class Provider(ft.TensorBackend):
    CONTRACT = (1, 0)
    name = "provider-1-0"
    dtypes = frozenset(TO_NUMPY)

    # devices, creation, transfer

    def devices(self) -> list[ft.Device]:
        return [ft.CPU]

    def synchronize(self, device: ft.Device) -> None:
        """Nothing is ever queued."""

    def full(self, shape: Shape, value: Any, dtype: ft.DType, device: ft.Device) -> Value:
        return made(np.full(shape, value, TO_NUMPY[dtype]), dtype)

    def arange(self, start: Any, stop: Any, step: Any, dtype: ft.DType, device: ft.Device) -> Value:
        count = max(0, math.ceil((stop - start) / step))
        return made([start + i * step for i in range(count)], dtype)

    def from_host(
        self,
        data: memoryview,
        shape: Shape,
        dtype: ft.DType,
        device: ft.Device,
        blocking: bool = True,
    ) -> Value:
        return made(np.frombuffer(bytes(data), TO_NUMPY[dtype]).reshape(shape), dtype)

    def to_host(self, x: Value, blocking: bool = True) -> memoryview:
        return memoryview(x.array.tobytes())

    def random_bits(self, seed: int, offset: int, shape: Shape, device: ft.Device) -> Value:
        return made(philox.words(seed, offset, math.prod(shape)).reshape(shape), ft.int32)

    # shape

    def reshape(self, x: Value, shape: Shape) -> Value:
        return made(x.array.reshape(shape), x.dtype)

    def permute(self, x: Value, axes: Shape) -> Value:
        return made(x.array.transpose(axes), x.dtype)

    def broadcast_to(self, x: Value, shape: Shape) -> Value:
        return made(np.broadcast_to(x.array, shape), x.dtype)

    def concatenate(self, xs: Any, axis: int = 0) -> Value:
        return made(np.concatenate([x.array for x in xs], axis), xs[0].dtype)

    def pad(self, x: Value, low: Shape, high: Shape, interior: Shape, value: Any = 0) -> Value:
        inner = [n + max(n - 1, 0) * i for n, i in zip(x.shape, interior)]
        sizes = [a + n + b for a, n, b in zip(low, inner, high)]
        result = np.full(sizes, value, x.array.dtype)
        places = [slice(a, a + n, i + 1) for a, n, i in zip(low, inner, interior)]
        result[tuple(places)] = x.array
        return made(result, x.dtype)

    def slice(self, x: Value, starts: Shape, sizes: Shape, steps: Shape) -> Value:
        found = x.array
        for axis, (start, size, step) in enumerate(zip(starts, sizes, steps)):
            found = np.take(found, start + step * np.arange(size, dtype=np.int64), axis)
        return made(found, x.dtype)

    def gather(self, x: Value, indices: Value, axis: int = 0) -> Value:
        at = indices.array
        if at.size and not 0 <= at.min() <= at.max() < x.shape[axis]:
            raise IndexError(f"indices from {at.min()} to {at.max()} on an axis of {x.shape[axis]}")
        return made(np.take(x.array, at, axis), x.dtype)

    def scatter(
        self,
        x: Value,
        indices: Value,
        updates: Value,
        axis: int = 0,
        mode: str = "set",
        donate: bool = False,
    ) -> Value:
        result = x.array.copy()
        place: Any = (slice(None),) * axis + (indices.array,)
        if mode == "add":
            np.add.at(result, place, updates.array)
        else:
            result[place] = updates.array
        return made(result, x.dtype)

    def sort(self, x: Value, axis: int = -1, descending: bool = False) -> Value:
        found = np.sort(x.array, axis, kind="stable")
        return made(np.flip(found, axis) if descending else found, x.dtype)

    def argsort(self, x: Value, axis: int = -1, descending: bool = False) -> Value:
        if not descending:
            return made(np.argsort(x.array, axis, kind="stable"), ft.int64)
        order = np.argsort(np.flip(x.array, axis), axis, kind="stable")
        return made(x.shape[axis] - 1 - np.flip(order, axis), ft.int64)

    def nonzero(self, x: Value) -> tuple[Value, ...]:
        return tuple(made(found, ft.int64) for found in np.nonzero(x.array))

    @quiet
    def cumulative_sum(self, x: Value, axis: int = -1) -> Value:
        dtype = wide(x.dtype)
        return made(np.cumsum(x.array, axis, TO_NUMPY[dtype]), dtype)

    # unary

    negative = unary(np.negative)
    absolute = unary(np.absolute)
    sign = unary(np.sign)
    exp = unary(np.exp)
    expm1 = unary(np.expm1)
    log = unary(np.log)
    log1p = unary(np.log1p)
    sqrt = unary(np.sqrt)
    sin = unary(np.sin)
    cos = unary(np.cos)
    tanh = unary(np.tanh)
    erf = unary(np.vectorize(math.erf, otypes=["float32"]))
    floor = rounding(np.floor)
    ceil = rounding(np.ceil)
    round = rounding(np.rint)
    bitwise_invert = unary(np.invert)

    # binary

    add = binary(np.add)
    subtract = binary(np.subtract)
    multiply = binary(np.multiply)
    divide = binary(np.true_divide)
    floor_divide = binary(np.floor_divide)
    remainder = binary(np.remainder)
    power = binary(np.power)
    atan2 = binary(np.arctan2)
    maximum = binary(np.maximum)
    minimum = binary(np.minimum)
    equal = binary(np.equal, ft.bool)
    less = binary(np.less, ft.bool)
    bitwise_and = binary(np.bitwise_and)
    bitwise_or = binary(np.bitwise_or)
    bitwise_xor = binary(np.bitwise_xor)
    bitwise_left_shift = binary(np.left_shift)
    bitwise_right_shift = binary(np.right_shift)

    # choice and conversion

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        return made(np.where(condition.array, x.array, y.array), x.dtype)

    @quiet
    def cast(self, x: Value, dtype: ft.DType) -> Value:
        return made(x.array.astype(TO_NUMPY[dtype]), dtype)

    # reductions

    sum = reduction(np.add, accumulates=True)
    prod = reduction(np.multiply, accumulates=True)
    max = reduction(np.maximum, accumulates=False)
    min = reduction(np.minimum, accumulates=False)

    def argmax(self, x: Value, axis: int, keepdims: bool = False) -> Value:
        return made(np.argmax(x.array, axis, keepdims=keepdims), ft.int64)

    # contractions

    @quiet
    def matmul(self, x: Value, y: Value) -> Value:
        return made(np.matmul(x.array, y.array), x.dtype)

    @quiet
    def conv(
        self,
        x: Value,
        w: Value,
        stride: Shape,
        padding: tuple[tuple[int, int], ...],
        input_dilation: Shape,
        kernel_dilation: Shape,
        groups: int = 1,
    ) -> Value:
        image = self._spread(x.array, padding, input_dilation)
        (batch, _, *size), (features, depth, *kernel) = image.shape, w.shape
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, kernel_dilation)]
        out = [max(0, (n - r) // s + 1) for n, r, s in zip(size, reach, stride)]
        image = image.reshape(batch, groups, depth, *size)
        weights = w.array.reshape(groups, features // groups, depth, *kernel)
        result = np.zeros((batch, groups, features // groups, *out), x.array.dtype)
        for place in itertools.product(*map(range, kernel)):
            starts = [p * d for p, d in zip(place, kernel_dilation)]
            window = [
                slice(a, a + (n - 1) * s + 1, s) if n else slice(0, 0)
                for a, n, s in zip(starts, out, stride)
            ]
            part = image[(..., *window)]
            factors = weights[(..., *place)]
            result += np.einsum("bgc...,gfc->bgf...", part, factors)
        return made(result.reshape(batch, features, *out), x.dtype)

    @staticmethod
    def _spread(x: np.ndarray, padding: Any, dilation: Shape) -> np.ndarray:
        for axis, ((low, high), step) in enumerate(zip(padding, dilation), 2):
            n = x.shape[axis]
            shape = list(x.shape)
            shape[axis] = max(0, (n - 1) * step + 1)
            wide = np.zeros(shape, x.dtype)
            wide[(slice(None),) * axis + (slice(None, None, step),)] = x
            room = [(0, 0)] * x.ndim
            room[axis] = (max(low, 0), max(high, 0))
            padded = np.pad(wide, room)
            begin, end = max(-low, 0), padded.shape[axis] - max(-high, 0)
            x = padded[(slice(None),) * axis + (slice(begin, max(begin, end)),)]
        return x
