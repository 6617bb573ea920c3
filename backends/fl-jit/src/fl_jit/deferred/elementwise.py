"""Deferred elementwise operations and reductions."""

from __future__ import annotations

import functools
from typing import Any

from fl_jit.deferred import fast_paths
from fl_jit.deferred.deferral import DeferredBackend, Value, defer
from fl_tensor import dtypes, rules
from fl_tensor.dtypes import DType
from fl_tensor.extend.numpy import NumpyBackend

_broadcast = functools.lru_cache(maxsize=4096)(rules.broadcast)


def _unary(name: str) -> Any:
    eager = getattr(NumpyBackend, name)

    def operation(self: DeferredBackend, x: Value) -> Value:
        if not self._should_defer(x):
            return eager(self, x)
        dtype = dtypes.real_of(x.dtype) if name == "absolute" else x.dtype
        return self._pending.record(name, (x,), (), x.shape, dtype)

    return fast_paths.unary(eager, operation)


def _rounding(name: str) -> Any:
    lazily = _unary(name)

    def operation(self: DeferredBackend, x: Value) -> Value:
        return x if x.dtype.is_integer else lazily(self, x)

    return operation


def _binary(name: str, result: DType | None = None) -> Any:
    eager = getattr(NumpyBackend, name)

    def operation(self: DeferredBackend, x: Value, y: Value) -> Value:
        if not self._should_defer(x, y):
            return eager(self, x, y)
        left, right = x.shape, y.shape
        shape = left if left == right or not right else _broadcast(name, left, right)
        return self._pending.record(name, (x, y), (), shape, result or x.dtype)

    return fast_paths.binary(eager, operation)


def _reduction(name: str, accumulate: bool) -> Any:
    @defer("x", name=name)
    def operation(
        self: DeferredBackend, x: Value, axis: tuple[int, ...], keepdims: bool = False
    ) -> Value:
        if accumulate:
            spec = rules.accumulation(x, axis, keepdims)
        else:
            spec = rules.selection(name, x, axis, keepdims, x.dtype)
        parameters = (tuple(axis), bool(keepdims))
        return self._pending.record(name, (x,), parameters, spec.shape, spec.dtype)

    return operation


class DeferredElementwise(DeferredBackend):
    """Elementwise operations and reductions."""

    absolute, negative, sign = map(_unary, ("absolute", "negative", "sign"))
    floor, ceil, round = map(_rounding, ("floor", "ceil", "round"))
    exp, expm1, log, log1p = map(_unary, ("exp", "expm1", "log", "log1p"))
    sqrt, sin, cos, tanh, erf = map(_unary, ("sqrt", "sin", "cos", "tanh", "erf"))
    bitwise_invert = _unary("bitwise_invert")

    add, subtract, multiply = map(_binary, ("add", "subtract", "multiply"))
    divide, floor_divide, remainder = map(_binary, ("divide", "floor_divide", "remainder"))
    _floating_power, atan2 = _binary("power"), _binary("atan2")
    maximum, minimum = _binary("maximum"), _binary("minimum")
    bitwise_and, bitwise_or = _binary("bitwise_and"), _binary("bitwise_or")
    bitwise_xor = _binary("bitwise_xor")
    bitwise_left_shift = _binary("bitwise_left_shift")
    bitwise_right_shift = _binary("bitwise_right_shift")
    equal, less = _binary("equal", dtypes.bool), _binary("less", dtypes.bool)

    def power(self, x: Value, y: Value) -> Value:
        # Integer powers run eagerly: a negative exponent raises an error.
        return super().power(x, y) if x.dtype.is_integer else self._floating_power(x, y)

    @defer("condition", "x", "y")
    def where(self, condition: Value, x: Value, y: Value) -> Value:
        shape = rules.where(condition, x, y).shape
        return self._pending.record("where", (condition, x, y), (), shape, x.dtype)

    @defer("x")
    def cast(self, x: Value, dtype: DType) -> Value:
        return self._pending.record("cast", (x,), (dtype,), x.shape, dtype)

    # reductions

    sum = _reduction("sum", accumulate=True)
    prod = _reduction("prod", accumulate=True)
    max = _reduction("max", accumulate=False)
    min = _reduction("min", accumulate=False)

    # operations with NumPy functions of their own

    acos, acosh = _unary("acos"), _unary("acosh")
    asin, asinh = _unary("asin"), _unary("asinh")
    atan, atanh = _unary("atan"), _unary("atanh")
    cosh, sinh, tan = _unary("cosh"), _unary("sinh"), _unary("tan")
    log2, log10 = _unary("log2"), _unary("log10")
