"""Functions of ``fl_tensor`` under the standard's signatures, where many have the same one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fl_tensor.arrays.array import Array

Unary = Callable[[Array], Any]
#: One of the two may be a Python scalar where ``fl_tensor`` takes one.
Binary = Callable[[Any, Any], Any]


def unary(function: Callable[..., Any], name: str | None = None) -> Unary:
    """``(x, /)``."""

    def one(x: Array, /) -> Any:
        return function(x)

    return _named(one, function, name)


def binary(function: Callable[..., Any], name: str | None = None) -> Binary:
    """``(x1, x2, /)``."""

    def two(x1: Any, x2: Any, /) -> Any:
        return function(x1, x2)

    return _named(two, function, name)


def transform(function: Callable[..., Any]) -> Callable[..., Array]:
    """``(x, /, *, n, axis, norm)``: a Fourier transform along one axis."""

    def along(
        x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
    ) -> Array:
        return function(x, n, axis, norm)

    return _named(along, function)


def transform_axes(function: Callable[..., Any]) -> Callable[..., Array]:
    """``(x, /, *, s, axes, norm)``: a Fourier transform along several axes."""

    def along(
        x: Array,
        /,
        *,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str = "backward",
    ) -> Array:
        return function(x, s, axes, norm)

    return _named(along, function)


def _named(made: Any, function: Callable[..., Any], name: str | None = None) -> Any:
    # Not functools.wraps, with which the function's own signature would be seen.
    made.__name__ = made.__qualname__ = name or function.__name__
    made.__doc__ = function.__doc__
    return made
