"""Manipulation functions: reshaping, joining, splitting, moving elements."""

from __future__ import annotations

from collections.abc import Sequence

import fl_tensor as ft
from fl_tensor.arrays.array import Array

Axes = int | tuple[int, ...]


def broadcast_arrays(*arrays: Array) -> tuple[Array, ...]:
    """The arrays, each broadcast to their common shape."""
    return tuple(ft.broadcast_arrays(*arrays))


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which arrays of these shapes broadcast."""
    return ft.broadcast_shapes(*shapes)


def broadcast_to(x: Array, /, shape: tuple[int, ...]) -> Array:
    """Repeat along new leading axes and axes of size 1."""
    return ft.broadcast_to(x, shape)


def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Array:
    """Join along an axis; with ``axis=None`` the flattened arrays."""
    if axis is None:
        return ft.concatenate([ft.reshape(x, (-1,)) for x in arrays], 0)
    return ft.concatenate(list(arrays), axis)


def expand_dims(x: Array, /, axis: Axes) -> Array:
    """New axes of size 1 at these positions of the result."""
    return ft.expand_dims(x, axis)


def flip(x: Array, /, *, axis: Axes | None = None) -> Array:
    """The elements in reverse order along the given axes, or along all."""
    return ft.flip(x, axis)


def moveaxis(x: Array, source: Axes, destination: Axes, /) -> Array:
    """Axes moved to new positions; the others keep their order."""
    return ft.moveaxis(x, source, destination)


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """Axis i of the result is axis ``axes[i]`` of ``x``."""
    return ft.permute(x, axes)


def repeat(x: Array, repeats: int | Array, /, *, axis: int | None = None) -> Array:
    """Every element several times in a row: ``repeats`` times each, or as often as the array says
    for each place along ``axis``; ``axis=None`` takes all elements in C order."""
    return ft.repeat(x, repeats, axis)


def reshape(x: Array, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    """The same elements in C order in another shape; one size may be -1. Arrays are values, so that
    ``copy`` makes no difference that could be seen."""
    return ft.reshape(x, shape)


def roll(x: Array, /, shift: Axes, *, axis: Axes | None = None) -> Array:
    """Elements moved ``shift`` places along axes, or all in C order; those that fall off come back
    in front."""
    return ft.roll(x, shift, axis)


def squeeze(x: Array, /, axis: Axes) -> Array:
    """Without the given axes, which have size 1."""
    return ft.squeeze(x, axis)


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    """Arrays of one shape joined along a new axis."""
    return ft.stack(list(arrays), axis)


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    """``x`` repeated ``repetitions[i]`` times along axis i."""
    return ft.tile(x, repetitions)


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The parts of ``x`` along an axis, without it."""
    return tuple(ft.unstack(x, axis))
