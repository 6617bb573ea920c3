"""Deferred contractions, recurrences and pooling."""

from __future__ import annotations

from typing import Any, TypeAlias

from fl_jit.deferred.deferral import DeferredBackend, Value, defer
from fl_tensor import DerivedOps, dtypes, rules
from fl_tensor.extend import Shape
from fl_tensor.extend.rules import (
    check_conv_gradient,
    check_pool_gradient,
    check_recurrent,
    pool_output_sizes,
)

Padding: TypeAlias = tuple[tuple[int, int], ...]


def _pairs(padding: Padding) -> Padding:
    return tuple([(low, high) for low, high in padding])


class DeferredContractions(DeferredBackend):
    """Operations whose result elements are reductions over several input elements."""

    def recurrent(
        self,
        x: Value,
        state: Value,
        weight: Value,
        bias: Value | None = None,
        cell: str = "tanh",
        lengths: Shape | None = None,
        reverse: bool = False,
    ) -> Value:
        if x.dtype in dtypes.HALF or not self._should_defer(x, state, weight):
            return super().recurrent(x, state, weight, bias, cell, lengths, reverse)
        _, kept = check_recurrent(x, state, weight, bias, cell, lengths)
        operands = (x, state, weight) if bias is None else (x, state, weight, bias)
        rest = cell, None if lengths is None else tuple(lengths), bool(reverse)
        shape = (kept, *x.shape[:2], state.shape[2])
        return self._pending.record("recurrent", operands, rest, shape, x.dtype)

    @defer("x")
    def max_pool(self, x: Value, window: Shape, stride: Shape, padding: Padding) -> Value:
        return self._pool("max_pool", x, (tuple(window), tuple(stride), _pairs(padding)))

    @defer("x")
    def avg_pool(
        self,
        x: Value,
        window: Shape,
        stride: Shape,
        padding: Padding,
        count_include_pad: bool = True,
    ) -> Value:
        rest = tuple(window), tuple(stride), _pairs(padding), count_include_pad
        return self._pool("avg_pool", x, rest)

    def _pool(self, op: str, x: Value, rest: tuple[Any, ...]) -> Value:
        shape = (*x.shape[:2], *pool_output_sizes(op, x.shape, *rest[:3]))
        return self._pending.record(op, (x,), rest, shape, x.dtype)

    @defer("gradient", "x")
    def max_pool_gradient(
        self,
        gradient: Value,
        x: Value,
        window: Shape,
        stride: Shape,
        padding: Padding,
    ) -> Value:
        rest = tuple(window), tuple(stride), _pairs(padding)
        check_pool_gradient("max_pool_gradient", gradient, x.shape, *rest)
        return self._pending.record("max_pool_gradient", (gradient, x), rest, x.shape, x.dtype)

    @defer("gradient")
    def avg_pool_gradient(
        self,
        gradient: Value,
        shape: Shape,
        window: Shape,
        stride: Shape,
        padding: Padding,
        count_include_pad: bool = True,
    ) -> Value:
        rest = tuple(shape), tuple(window), tuple(stride), _pairs(padding)
        check_pool_gradient("avg_pool_gradient", gradient, *rest)
        parameters = (*rest, count_include_pad)
        record = self._pending.record
        return record("avg_pool_gradient", (gradient,), parameters, rest[0], gradient.dtype)

    @defer("x", "y")
    def matmul(self, x: Value, y: Value) -> Value:
        shape = rules.matmul(x, y).shape
        return self._pending.record("matmul", (x, y), (), shape, x.dtype)

    @defer("x", "w")
    def conv(
        self,
        x: Value,
        w: Value,
        stride: tuple[int, ...],
        padding: tuple[tuple[int, int], ...],
        input_dilation: tuple[int, ...],
        kernel_dilation: tuple[int, ...],
        groups: int = 1,
    ) -> Value:
        rest: Any = tuple(stride), _pairs(padding), tuple(input_dilation)
        rest += tuple(kernel_dilation), groups
        shape = rules.conv(x, w, *rest).shape
        return self._pending.record("conv", (x, w), rest, shape, x.dtype)

    @defer("gradient", "w")
    def conv_data_gradient(
        self,
        gradient: Value,
        w: Value,
        shape: Shape,
        stride: Shape,
        padding: Padding,
        input_dilation: Shape,
        kernel_dilation: Shape,
        groups: int = 1,
    ) -> Value:
        rest: Any = tuple(stride), _pairs(padding), tuple(input_dilation)
        rest += tuple(kernel_dilation), groups
        if max(input_dilation) > 1:  # a strided convolution; no kernel library supports it
            return DerivedOps.conv_data_gradient(self, gradient, w, shape, *rest)
        check_conv_gradient("conv_data_gradient", gradient.shape, shape, w.shape, *rest)
        operands, parameters = (gradient, w), (tuple(shape), *rest)
        return self._pending.record(
            "conv_data_gradient", operands, parameters, tuple(shape), gradient.dtype
        )

    @defer("gradient", "x")
    def conv_weight_gradient(
        self,
        gradient: Value,
        x: Value,
        shape: Shape,
        stride: Shape,
        padding: Padding,
        input_dilation: Shape,
        kernel_dilation: Shape,
        groups: int = 1,
    ) -> Value:
        rest: Any = tuple(stride), _pairs(padding), tuple(input_dilation)
        rest += tuple(kernel_dilation), groups
        if max(input_dilation) > 1:
            return DerivedOps.conv_weight_gradient(self, gradient, x, shape, *rest)
        check_conv_gradient("conv_weight_gradient", gradient.shape, x.shape, shape, *rest)
        operands, parameters = (gradient, x), (tuple(shape), *rest)
        return self._pending.record(
            "conv_weight_gradient", operands, parameters, tuple(shape), gradient.dtype
        )
