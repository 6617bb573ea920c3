"""The required primitives of `tensor 1.0`; every derived operation comes from fl-tensor."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate, repeat
from math import ceil, prod
from operator import mul
from typing import Any

import fl_tensor as ft
from acme_backend import layout, maths
from acme_backend.value import CODES, CPU, Shape, Value, make, stored
from fl_tensor.backend import TensorBackend


def _sum_dtype(dtype: ft.DType) -> ft.DType:
    return dtype if dtype.kind == "f" else ft.int64


def _unary(name: str) -> Any:
    def operation(self: TensorBackend, x: Value) -> Value:
        if x.dtype.kind != "f" and name in ("floor", "ceil", "round"):
            return x
        return make(map(maths.UNARY[name], x.numbers()), x.shape, x.dtype)

    return operation


def _binary(name: str) -> Any:
    floating, integer = maths.BINARY[name], maths.INTEGER.get(name, maths.BINARY[name])
    result = ft.bool if name in ("equal", "less") else None

    def operation(self: TensorBackend, x: Value, y: Value) -> Value:
        shape = layout.broadcast_shapes(x.shape, y.shape)
        function = floating if x.dtype.kind == "f" else integer
        return make(map(function, _spread(x, shape), _spread(y, shape)), shape, result or x.dtype)

    return operation


def _spread(x: Value, shape: Shape) -> Any:
    """The elements of `x` broadcast to `shape`."""
    if x.shape == shape:
        return x.numbers()
    if prod(x.shape) == 1:
        return repeat(x.items[0], prod(shape))
    return layout.view(shape, layout.broadcast_strides(x.shape, shape))(x.numbers())


def _reduction(function: Callable[[list[Any]], Any], accumulates: bool) -> Any:
    def operation(self: TensorBackend, x: Value, axis: Shape, keepdims: bool = False) -> Value:
        kept = [a for a in range(len(x.shape)) if a not in axis]
        last = self.permute(x, (*kept, *axis)).numbers()
        n, count = prod(x.shape[a] for a in axis), prod(x.shape[a] for a in kept)
        chunks = (last[i * n : (i + 1) * n] for i in range(count))
        shape = tuple(1 if a in axis else s for a, s in enumerate(x.shape) if keepdims or a in kept)
        return make(map(function, chunks), shape, _sum_dtype(x.dtype) if accumulates else x.dtype)

    return operation


def _products(rows: Sequence[Any], columns: Sequence[Any]) -> list[Any]:
    return [sum(map(mul, row, column)) for row in rows for column in columns]


class AcmeBackend(TensorBackend):
    """Pure Python on lists; float32 results are rounded to float32 as they are stored."""

    CONTRACT = (1, 0)
    name = "acme"
    dtypes = frozenset(map(ft.dtype, CODES))
    capabilities = frozenset({"memory"})

    def devices(self) -> list[ft.Device]:
        return [CPU]

    def synchronize(self, device: ft.Device) -> None:
        """Every operation has finished when it returns."""

    def full(self, shape: Shape, value: Any, dtype: ft.DType, device: ft.Device) -> Value:
        return make([value] * prod(shape), shape, dtype)

    def arange(self, start: Any, stop: Any, step: Any, dtype: ft.DType, device: ft.Device) -> Value:
        count = max(0, ceil((stop - start) / step))
        return make((start + i * step for i in range(count)), (count,), dtype)

    def from_host(
        self, data: Any, shape: Shape, dtype: ft.DType, device: ft.Device, blocking: bool = True
    ) -> Value:
        return stored(array(CODES[dtype.name], bytes(data)), shape, dtype)

    def to_host(self, x: Value, blocking: bool = True) -> memoryview:
        return memoryview(x.items.tobytes())

    def random_bits(self, seed: int, offset: int, shape: Shape, device: ft.Device) -> Value:
        first, stop = offset // 4, offset + prod(shape)
        blocks = (maths.philox(seed, block) for block in range(first, (stop + 3) // 4))
        words = [word for block in blocks for word in block]
        return make(words[offset - 4 * first : stop - 4 * first], shape, ft.int32)

    def reshape(self, x: Value, shape: Shape) -> Value:
        return Value(x.items, shape, x.dtype)  # immutable, so sharing is safe

    def _strided(self, x: Value, shape: Shape, steps: Shape, start: int = 0) -> Value:
        return make(layout.view(shape, steps, start)(x.numbers()), shape, x.dtype)

    def permute(self, x: Value, axes: Shape) -> Value:
        steps = layout.strides(x.shape)
        return self._strided(x, tuple(x.shape[a] for a in axes), tuple(steps[a] for a in axes))

    def broadcast_to(self, x: Value, shape: Shape) -> Value:
        return self._strided(x, shape, layout.broadcast_strides(x.shape, shape))

    def concatenate(self, xs: Sequence[Value], axis: int = 0) -> Value:
        parts = [(x.numbers(), prod(x.shape[axis:])) for x in xs]
        before, after = xs[0].shape[:axis], xs[0].shape[axis + 1 :]
        rows = (items[o * n : (o + 1) * n] for o in range(prod(before)) for items, n in parts)
        shape = (*before, sum(x.shape[axis] for x in xs), *after)
        return make((item for row in rows for item in row), shape, xs[0].dtype)

    def pad(self, x: Value, low: Shape, high: Shape, interior: Shape, value: Any = 0) -> Value:
        sizes = zip(x.shape, low, high, interior)
        shape = tuple(a + n + max(n - 1, 0) * between + b for n, a, b, between in sizes)
        steps = layout.strides(shape)
        inner = tuple(step * (between + 1) for step, between in zip(steps, interior))
        result = [value] * prod(shape)
        places = layout.places(x.shape, inner, sum(map(mul, low, steps)))
        for place, item in zip(places, x.numbers()):
            result[place] = item
        return make(result, shape, x.dtype)

    def slice(self, x: Value, starts: Shape, sizes: Shape, steps: Shape) -> Value:
        own = layout.strides(x.shape)
        return self._strided(x, sizes, tuple(map(mul, own, steps)), sum(map(mul, starts, own)))

    def _named(self, x: Value, indices: Value, axis: int) -> list[int]:
        """Where the elements lie that `indices` name, in the order in which gather reads them."""
        outer, n, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
        at = indices.numbers()
        if at and not 0 <= min(at) <= max(at) < n:
            raise IndexError(f"[acme] indices from {min(at)} to {max(at)} on an axis of {n}")
        rows = [(o * n + i) * inner for o in range(outer) for i in at]
        return [row + i for row in rows for i in range(inner)]

    def gather(self, x: Value, indices: Value, axis: int = 0) -> Value:
        shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
        return make(layout.picker(self._named(x, indices, axis))(x.numbers()), shape, x.dtype)

    def scatter(
        self, x: Value, indices: Value, updates: Value, axis: int = 0, mode: str = "set",
        donate: bool = False,
    ) -> Value:  # fmt: skip
        result = x.numbers()
        for place, update in zip(self._named(x, indices, axis), updates.numbers()):
            result[place] = result[place] + update if mode == "add" else update
        return make(result, x.shape, x.dtype)

    def _lanes(self, x: Value, axis: int, function: Any, dtype: ft.DType) -> Value:
        items = layout.along(x.numbers(), x.shape, axis, x.shape[axis], function)
        return make(items, x.shape, dtype)

    def sort(self, x: Value, axis: int = -1, descending: bool = False) -> Value:
        options: Any = {"key": maths.rank, "reverse": descending}
        return self._lanes(x, axis, lambda lane: sorted(lane, **options), x.dtype)

    def argsort(self, x: Value, axis: int = -1, descending: bool = False) -> Value:
        def order(lane: Sequence[Any]) -> list[int]:
            return sorted(range(len(lane)), key=lambda i: maths.rank(lane[i]), reverse=descending)

        return self._lanes(x, axis, order, ft.int64)

    def nonzero(self, x: Value) -> tuple[Value, ...]:
        found = [place for place, item in enumerate(x.numbers()) if item]
        axes = zip(x.shape, layout.strides(x.shape))
        return tuple(make((p // s % n for p in found), (len(found),), ft.int64) for n, s in axes)

    def cumulative_sum(self, x: Value, axis: int = -1) -> Value:
        return self._lanes(x, axis, lambda lane: list(accumulate(lane)), _sum_dtype(x.dtype))

    negative, absolute, sign, exp = map(_unary, ("negative", "absolute", "sign", "exp"))
    expm1, log, log1p, sqrt = map(_unary, ("expm1", "log", "log1p", "sqrt"))
    sin, cos, tanh, erf = map(_unary, ("sin", "cos", "tanh", "erf"))
    floor, ceil, round = map(_unary, ("floor", "ceil", "round"))
    add, subtract, multiply, divide = map(_binary, ("add", "subtract", "multiply", "divide"))
    floor_divide, remainder, power = map(_binary, ("floor_divide", "remainder", "power"))
    atan2, maximum, minimum = map(_binary, ("atan2", "maximum", "minimum"))
    equal, less, bitwise_xor = map(_binary, ("equal", "less", "bitwise_xor"))
    bitwise_and, bitwise_or = map(_binary, ("bitwise_and", "bitwise_or"))
    bitwise_left_shift = _binary("bitwise_left_shift")
    bitwise_right_shift = _binary("bitwise_right_shift")
    sum, prod = _reduction(sum, accumulates=True), _reduction(prod, accumulates=True)
    max = _reduction(lambda lane: max(lane, key=maths.rank), accumulates=False)
    min = _reduction(lambda lane: min(lane, key=lambda n: (n == n, n)), accumulates=False)

    def bitwise_invert(self, x: Value) -> Value:
        ones = -1 if x.dtype.kind == "i" else 1 if x.dtype is ft.bool else 255
        return make((item ^ ones for item in x.numbers()), x.shape, x.dtype)

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        shape = layout.broadcast_shapes(condition.shape, x.shape, y.shape)
        choices = zip(*(_spread(each, shape) for each in (condition, x, y)))
        return make((a if c else b for c, a, b in choices), shape, x.dtype)

    def cast(self, x: Value, dtype: ft.DType) -> Value:
        if dtype is ft.bool:
            return make((item != 0 for item in x.numbers()), x.shape, dtype)
        whole = x.dtype.kind == "f" and dtype.kind != "f"
        convert = maths.guarded(int, lambda item: 0) if whole else lambda item: item
        return make(map(convert, x.numbers()), x.shape, dtype)

    def argmax(self, x: Value, axis: int, keepdims: bool = False) -> Value:
        def first(lane: Sequence[Any]) -> list[int]:
            return [max(range(len(lane)), key=lambda i: maths.rank(lane[i]))]

        shape = (*x.shape[:axis], *([1] if keepdims else []), *x.shape[axis + 1 :])
        return make(layout.along(x.numbers(), x.shape, axis, 1, first), shape, ft.int64)

    def matmul(self, x: Value, y: Value) -> Value:
        (m, k), n = x.shape[-2:], y.shape[-1]
        batch = layout.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        lefts, rights = _spread(x, (*batch, m, k)), _spread(y, (*batch, k, n))
        result: list[Any] = []
        for b in range(prod(batch)):
            left, right = lefts[b * m * k : (b + 1) * m * k], rights[b * k * n : (b + 1) * k * n]
            rows = [left[i * k : (i + 1) * k] for i in range(m)]
            result += _products(rows, [right[j::n] for j in range(n)])
        return make(result, (*batch, m, n), x.dtype)

    def conv(
        self, x: Value, w: Value, stride: Shape, padding: tuple[tuple[int, int], ...],
        input_dilation: Shape, kernel_dilation: Shape, groups: int = 1,
    ) -> Value:  # fmt: skip
        (batch, _, *size), (features, depth, *kernel) = x.shape, w.shape
        spread = (max(0, (n - 1) * d + 1) for n, d in zip(size, input_dilation))
        reach = ((k - 1) * d + 1 for k, d in zip(kernel, kernel_dilation))
        spans = (n + a + b - r for n, (a, b), r in zip(spread, padding, reach))
        out = tuple(max(0, free // s + 1) for free, s in zip(spans, stride))
        low = tuple(a for a, _ in padding)
        at = (tuple(size), depth, out, tuple(kernel), stride, low, input_dilation, kernel_dilation)
        items, weights, windows = x.numbers(), w.numbers(), layout.windows(*at)
        chunk, share, area = prod(w.shape[1:]), features // groups, depth * prod(size)
        rows = [weights[f * chunk : (f + 1) * chunk] for f in range(features)]
        result: list[Any] = []
        for b in range(batch * groups):
            group = [*items[b * area : (b + 1) * area], 0]
            mine = rows[b % groups * share : (b % groups + 1) * share]
            result += _products(mine, [window(group) for window in windows])
        return make(result, (batch, features, *out), x.dtype)
