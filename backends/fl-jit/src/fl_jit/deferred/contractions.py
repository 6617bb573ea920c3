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


def _conv_settings(
    stride: Shape, padding: Padding, input_dilation: Shape, kernel_dilation: Shape, groups: int
) -> tuple[Any, ...]:
    return tuple(stride), _pairs(padding), tuple(input_dilation), tuple(kernel_dilation), groups


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
        _, steps = check_recurrent(x, state, weight, bias, cell, lengths)
        operands = (x, state, weight) if bias is None else (x, state, weight, bias)
        settings = cell, None if lengths is None else tuple(lengths), bool(reverse)
        shape = (steps, *x.shape[:2], state.shape[2])
        return self._pending.record("recurrent", operands, settings, shape, x.dtype)

    @defer("x")
    def max_pool(self, x: Value, *settings: Any) -> Value:
        return self._pool("max_pool", x, *settings)

    @defer("x")
    def avg_pool(self, x: Value, *settings: Any) -> Value:
        return self._pool("avg_pool", x, *settings)

    def _pool(
        self, op: str, x: Value, window: Shape, stride: Shape, padding: Padding, *more: Any
    ) -> Value:
        settings = tuple(window), tuple(stride), _pairs(padding)
        shape = (*x.shape[:2], *pool_output_sizes(op, x.shape, *settings))
        return self._pending.record(op, (x,), (*settings, *more), shape, x.dtype)

    @defer("gradient", "x")
    def max_pool_gradient(
        self, gradient: Value, x: Value, window: Shape, stride: Shape, padding: Padding
    ) -> Value:
        settings = tuple(window), tuple(stride), _pairs(padding)
        check_pool_gradient("max_pool_gradient", gradient, x.shape, *settings)
        return self._pending.record("max_pool_gradient", (gradient, x), settings, x.shape, x.dtype)

    @defer("gradient")
    def avg_pool_gradient(
        self,
        gradient: Value,
        shape: Shape,
        window: Shape,
        stride: Shape,
        padding: Padding,
        *more: Any,
    ) -> Value:
        settings = tuple(shape), tuple(window), tuple(stride), _pairs(padding)
        check_pool_gradient("avg_pool_gradient", gradient, *settings)
        settings, record = (*settings, *more), self._pending.record
        return record("avg_pool_gradient", (gradient,), settings, settings[0], gradient.dtype)

    @defer("x", "y")
    def matmul(self, x: Value, y: Value) -> Value:
        shape = rules.matmul(x, y).shape
        return self._pending.record("matmul", (x, y), (), shape, x.dtype)

    @defer("x", "w")
    def conv(self, x: Value, w: Value, *settings: Any) -> Value:
        settings = _conv_settings(*settings)
        shape = rules.conv(x, w, *settings).shape
        return self._pending.record("conv", (x, w), settings, shape, x.dtype)

    @defer("gradient", "w")
    def conv_data_gradient(self, gradient: Value, w: Value, shape: Shape, *settings: Any) -> Value:
        settings = _conv_settings(*settings)
        if max(settings[2]) > 1:  # input dilation, which no kernel library supports
            return DerivedOps.conv_data_gradient(self, gradient, w, shape, *settings)
        check_conv_gradient("conv_data_gradient", gradient.shape, shape, w.shape, *settings)
        return self._conv_gradient("conv_data_gradient", gradient, w, shape, settings)

    @defer("gradient", "x")
    def conv_weight_gradient(
        self, gradient: Value, x: Value, shape: Shape, *settings: Any
    ) -> Value:
        settings = _conv_settings(*settings)
        if max(settings[2]) > 1:
            return DerivedOps.conv_weight_gradient(self, gradient, x, shape, *settings)
        check_conv_gradient("conv_weight_gradient", gradient.shape, x.shape, shape, *settings)
        return self._conv_gradient("conv_weight_gradient", gradient, x, shape, settings)

    def _conv_gradient(
        self, op: str, gradient: Value, y: Value, shape: Shape, settings: tuple[Any, ...]
    ) -> Value:
        shape = tuple(shape)
        return self._pending.record(op, (gradient, y), (shape, *settings), shape, gradient.dtype)
