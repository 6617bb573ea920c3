"""Searching, sorting and indexing functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fl_tensor as ft
from fl_tensor.arrays.array import Array


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Position of the first maximum along an axis, or among all elements in C order."""
    return _position(ft.argmax, x, axis, keepdims)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Position of the first minimum along an axis, or among all elements in C order."""
    return _position(ft.argmin, x, axis, keepdims)


def _position(find: Callable[..., Any], x: Array, axis: int | None, keepdims: bool) -> Array:
    if axis is not None:
        return find(x, axis, keepdims)
    found = find(ft.reshape(x, (-1,)), 0)
    return ft.reshape(found, (1,) * x.ndim) if keepdims else found


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """Indices of the elements that are not zero, an array per axis."""
    return ft.nonzero(x)


def where(condition: Array, x1: Any, x2: Any, /) -> Array:
    """``x1`` where ``condition`` holds, else ``x2``; either may be a Python scalar."""
    return ft.where(condition, x1, x2)


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Sorted values, always stable; NaN sorts as the largest."""
    return ft.sort(x, axis, descending)


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Positions that sort ``x``, always stable."""
    return ft.argsort(x, axis, descending)


def searchsorted(
    x1: Array, x2: Any, /, *, side: str = "left", sorter: Array | None = None
) -> Array:
    """Where ``x2`` belongs in the ascending vector ``x1``, or in ``x1[sorter]``: before equal
    elements, or after them with ``side="right"``."""
    return ft.searchsorted(x1, x2, side, sorter)


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """``x`` at integer ``indices`` along an axis, which a vector needs not name."""
    if axis is None and x.ndim > 1:
        raise ft.ArgumentError(f"[take] x {x.shape}: several axes, so say which")
    return ft.take(x, indices, axis or 0)


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """``out[..., i, ...] = x[..., indices[..., i, ...], ...]``."""
    return ft.take_along_axis(x, indices, axis)
