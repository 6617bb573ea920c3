"""Scatter, stable order and top-k from their definitions, one element at a time."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_tensor.testing.hostdata import HostArray


def scatter(
    x: HostArray,
    indices: HostArray,
    updates: HostArray,
    axis: int = 0,
    mode: str = "set",
    donate: bool = False,
) -> HostArray:
    places = np.take(np.arange(x.size).reshape(x.shape), indices, axis)
    out = x.flatten()
    combine = _COMBINED[mode]
    for place, update in zip(places.ravel(), updates.ravel(), strict=True):
        out[place] = combine(out[place], update)
    return out.reshape(x.shape)


_COMBINED: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda old, new: new,
    "add": operator.add,
    "max": np.maximum,
    "min": np.minimum,
}


def slice_update(
    x: HostArray,
    starts: tuple[int, ...],
    steps: tuple[int, ...],
    updates: HostArray,
    donate: bool = False,
) -> HostArray:
    out = x.copy()
    for place in np.ndindex(updates.shape):
        out[tuple(s + i * d for s, i, d in zip(starts, place, steps, strict=True))] = updates[place]
    return out


def argsort(x: HostArray, axis: int = -1, descending: bool = False) -> NDArray[np.int64]:
    """Python's sort is stable in both directions; NaN is made the largest value."""

    def order(row: HostArray) -> list[int]:
        values = row.tolist()
        return sorted(range(len(values)), key=lambda i: _rank(values[i]), reverse=descending)

    rows = np.moveaxis(x, axis, -1)
    flat = rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1])
    places = np.array([order(row) for row in flat], np.int64).reshape(rows.shape)
    return np.moveaxis(places, -1, axis)


def _rank(value: Any) -> tuple[bool, Any]:
    nan = isinstance(value, float) and math.isnan(value)
    return nan, 0.0 if nan else value


def sort(x: HostArray, axis: int = -1, descending: bool = False) -> HostArray:
    return np.take_along_axis(x, argsort(x, axis, descending), axis)


def topk(x: HostArray, k: int, axis: int = -1, largest: bool = True) -> tuple[HostArray, HostArray]:
    places = np.take(argsort(x, axis, largest), range(k), axis)
    return np.take_along_axis(x, places, axis), places


def argmax(x: HostArray, axis: int, keepdims: bool = False) -> HostArray:
    """The first of the largest; NaN is the largest."""
    return _first(x, axis, keepdims, largest=True)


def argmin(x: HostArray, axis: int, keepdims: bool = False) -> HostArray:
    """The first of the smallest; NaN counts as the smallest."""
    return _first(x, axis, keepdims, largest=False)


def _first(x: HostArray, axis: int, keepdims: bool, largest: bool) -> HostArray:
    def place(row: HostArray) -> int:
        values = row.tolist()
        nans = [i for i, v in enumerate(values) if v != v]
        return nans[0] if nans else values.index((max if largest else min)(values))

    rows = np.moveaxis(x, axis, -1)
    found = np.array([place(rows[at]) for at in np.ndindex(rows.shape[:-1])], np.int64)
    found = found.reshape(rows.shape[:-1])
    return np.expand_dims(found, axis) if keepdims else found


def cross_entropy(log_probs: HostArray, targets: HostArray, axis: int = -1) -> HostArray:
    rows = np.moveaxis(log_probs, axis, -1)
    out = np.zeros(targets.shape)
    for at in np.ndindex(targets.shape):
        out[at] = -rows[(*at, int(targets[at]))]
    return out


def one_hot(x: HostArray, classes: int, dtype: object = None) -> HostArray:
    out = np.zeros((*x.shape, classes))
    for at in np.ndindex(x.shape):
        if 0 <= x[at] < classes:
            out[(*at, int(x[at]))] = 1
    return out
