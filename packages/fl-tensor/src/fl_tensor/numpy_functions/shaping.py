"""Shapes and order of axes: at least n axes, transposes, turns, repetition to a size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import fl_tensor as ft
from fl_tensor import arguments
from fl_tensor.arguments import axis_of
from fl_tensor.dispatch.frontend import ArrayLike, operand

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "fliplr",
    "flipud",
    "ravel",
    "resize",
    "rollaxis",
    "rot90",
    "transpose",
    "trim_zeros",
]


def transpose(x: ArrayLike, axes: Sequence[int] | None = None) -> Any:
    """Axes in the given order; reversed without one."""
    x = operand("transpose", "A", x)
    return ft.permute(x, range(x.ndim)[::-1] if axes is None else axes)


def ravel(x: ArrayLike) -> Any:
    """All elements in C order, as a vector."""
    return ft.reshape(x, (-1,))


def atleast_1d(*xs: ArrayLike) -> Any:
    """The array with at least one axis; several give a tuple."""
    return _each(xs, "atleast_1d", lambda x: x if x.ndim else ft.reshape(x, (1,)))


def atleast_2d(*xs: ArrayLike) -> Any:
    """The array with at least two axes, new ones in front; several give a tuple."""

    def wide(x: Any) -> Any:
        return x if x.ndim > 1 else ft.reshape(x, (1, x.size))

    return _each(xs, "atleast_2d", wide)


def atleast_3d(*xs: ArrayLike) -> Any:
    """The array with at least three axes: (n,) becomes (1, n, 1), and (m, n) becomes (m, n, 1).
    Several give a tuple."""

    def wide(x: Any) -> Any:
        return x if x.ndim > 2 else ft.reshape(x, (*x.shape, 1) if x.ndim == 2 else (1, x.size, 1))

    return _each(xs, "atleast_3d", wide)


def _each(xs: Sequence[ArrayLike], op: str, function: Any) -> Any:
    made = [function(operand(op, "A", x)).copy() for x in xs]
    return made[0] if len(made) == 1 else tuple(made)


def flipud(x: ArrayLike) -> Any:
    """The elements in reverse order along axis 0."""
    return ft.flip(x, 0)


def fliplr(x: ArrayLike) -> Any:
    """The elements in reverse order along axis 1."""
    return ft.flip(x, 1)


def rot90(x: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Turned ``k`` times by a right angle, from the first of ``axes`` towards the second."""
    x = operand("rot90", "A", x)
    given = arguments.ints_of("rot90", axes, "axes")
    places = arguments.axes("rot90", given, x.shape)
    if len(places) != 2:
        raise ft.ArgumentError(f"[rot90] axes {axes!r}: expected two axes")
    first, second = given
    turns = arguments.int_of("rot90", k, "k") % 4
    if turns % 2 == 0:
        return ft.flip(x, places) if turns else x.copy()
    if turns == 1:
        return ft.swapaxes(ft.flip(x, second), first, second)
    return ft.flip(ft.swapaxes(x, first, second), second)


def rollaxis(x: ArrayLike, axis: int, start: int = 0) -> Any:
    """Axis ``axis`` moved in front of axis ``start``; ``ft.moveaxis`` is easier to read."""
    x = operand("rollaxis", "A", x)
    source = axis_of("rollaxis", axis, x.shape)
    before = axis_of("rollaxis", start, (*x.shape, 1), "start")
    if start < 0:
        before = axis_of("rollaxis", start, x.shape, "start")
    return ft.moveaxis(x, source, before - 1 if source < before else before)


def resize(x: ArrayLike, shape: int | Sequence[int]) -> Any:
    """The elements in C order, repeated or cut off as needed to fill ``shape``; zeros where ``x``
    is empty."""
    x = ravel(operand("resize", "A", x))
    wanted = arguments.shape_of("resize", shape)
    count = math.prod(wanted)
    if x.size == 0:
        return ft.reshape(ft.pad(x, (0, count)), wanted)
    return ft.reshape(ft.tile(x, -(-count // x.size))[:count], wanted)


def trim_zeros(x: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Any:
    """``x`` without the zeros at the front (``"f"``), the back (``"b"``) or both ends (``"fb"``) of
    the given axes, by default of all. The result's shape depends on data."""
    x = operand("trim_zeros", "A", x)
    ends = arguments.choice_of("trim_zeros", trim, "trim", ("fb", "bf", "f", "b"))
    places = ft.nonzero(x)
    kept = [slice(None)] * x.ndim
    for i in arguments.axes("trim_zeros", axis, x.shape):
        if places[i].size == 0:
            kept[i] = slice(0, 0)
            continue
        first, last = ft.min(places[i]).item(), ft.max(places[i]).item()
        kept[i] = slice(first if "f" in ends else 0, last + 1 if "b" in ends else None)
    return x[tuple(kept)]
