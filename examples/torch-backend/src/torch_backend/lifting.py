"""From a function of PyTorch to an operation of the contract, by kinds of signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fl_tensor.backend import TensorBackend
from torch_backend.value import Shape, Value

Function = Callable[..., Any]


def unary(function: Function) -> Any:
    def operation(self: TensorBackend, x: Value) -> Value:
        return Value(function(x.tensor))

    return operation


def binary(function: Function) -> Any:
    def operation(self: TensorBackend, x: Value, y: Value) -> Value:
        return Value(function(x.tensor, y.tensor))

    return operation


def along(function: Function) -> Any:
    """Along one axis."""

    def operation(self: TensorBackend, x: Value, axis: int = -1) -> Value:
        return Value(function(x.tensor, axis))

    return operation


def reduction(function: Function) -> Any:
    """Over axes; over none it changes nothing, where PyTorch would take them all."""

    def operation(self: TensorBackend, x: Value, axis: Shape, keepdims: bool = False) -> Value:
        return Value(function(x.tensor, axis, keepdims)) if axis else x

    return operation
