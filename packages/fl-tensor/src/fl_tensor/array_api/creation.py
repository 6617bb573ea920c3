"""Creation functions. Arrays are on the backend of ``ft.use``, whose devices ``device`` names."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_tensor.arrays.array import Array
from fl_tensor.device import Device
from fl_tensor.dtypes import DType

Shape = int | tuple[int, ...]


def asarray(
    obj: Any,
    /,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    copy: bool | None = None,
) -> Array:
    """An array with the values of ``obj``: an array, a scalar, nested sequences of them, or an
    object with a buffer or DLPack. Nothing is copied with ``copy=False``: ValueError where that
    cannot be."""
    return ft.asarray(obj, dtype, device, copy=copy)


def from_dlpack(x: object, /, *, device: Device | None = None, copy: bool | None = None) -> Array:
    """An array over the memory of a DLPack producer, which must not be written to from now on, or
    with ``copy=True`` a copy of it."""
    return ft.from_dlpack(x, device=device, copy=copy)


def arange(
    start: int | float,
    /,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
) -> Array:
    """``start, start + step, ...`` below ``stop``; ``arange(n)`` counts from 0."""
    return ft.arange(start, stop, step, dtype, device)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    endpoint: bool = True,
) -> Array:
    """``num`` evenly spaced numbers from ``start`` to ``stop`` (included with ``endpoint``)."""
    return ft.linspace(start, stop, num, dtype, device, endpoint)


def full(
    shape: Shape, fill_value: Any, *, dtype: DType | None = None, device: Device | None = None
) -> Array:
    """All elements equal to a Python scalar, whose dtype is the default."""
    return ft.full(shape, fill_value, dtype, device)


def zeros(shape: Shape, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """All elements 0; float32 by default."""
    return ft.zeros(shape, dtype, device)


def ones(shape: Shape, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """All elements 1; float32 by default."""
    return ft.ones(shape, dtype, device)


def empty(shape: Shape, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """As ``zeros``: values that nobody has written are no values here."""
    return ft.zeros(shape, dtype, device)


def full_like(
    x: Array, /, fill_value: Any, *, dtype: DType | None = None, device: Device | None = None
) -> Array:
    """A Python scalar with the shape, dtype and device of ``x``."""
    return ft.full_like(x, fill_value, dtype, device)


def zeros_like(x: Array, /, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Zeros with the shape, dtype and device of ``x``."""
    return ft.zeros_like(x, dtype, device)


def ones_like(x: Array, /, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Ones with the shape, dtype and device of ``x``."""
    return ft.ones_like(x, dtype, device)


def empty_like(x: Array, /, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """As ``zeros_like``."""
    return ft.zeros_like(x, dtype, device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DType | None = None,
    device: Device | None = None,
) -> Array:
    """Ones on diagonal ``k``, zeros elsewhere."""
    return ft.eye(n_rows, n_cols, k, dtype, device)


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The lower triangle of the last two axes, diagonal ``k`` included."""
    return ft.tril(x, k)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The upper triangle of the last two axes, diagonal ``k`` included."""
    return ft.triu(x, k)


def meshgrid(*arrays: Array, indexing: str = "xy") -> tuple[Array, ...]:
    """Coordinate grids of 1-d arrays: ``"ij"`` in their order, ``"xy"`` the first two
    exchanged."""
    return tuple(ft.meshgrid(*arrays, indexing=indexing))
