"""Scatter by the largest and the smallest, in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fl_tensor import rules
from fl_tensor.backends.numpy import errstate, memory
from fl_tensor.backends.numpy.adapter import NumpyAdapter

Value = NumpyAdapter


class Extremes:
    """The mixin of ``scatter_max`` and ``scatter_min``."""

    def scatter_max(self, x: Value, indices: Value, updates: Value, axis: int = 0) -> Value:
        return _scattered(np.maximum, x, indices, updates, axis)

    def scatter_min(self, x: Value, indices: Value, updates: Value, axis: int = 0) -> Value:
        return _scattered(np.minimum, x, indices, updates, axis)


def _scattered(ufunc: Any, x: Value, indices: Value, updates: Value, axis: int) -> Value:
    # ``ufunc.at`` has a fast loop for a vector alone.
    rules.scatter(x, indices, updates, axis)
    places = np.arange(math.prod(x.shape)).reshape(x.shape).take(indices.array, axis)
    out = memory.empty(x.shape, x.array.dtype)
    np.copyto(out, x.array)
    errstate.call(ufunc.at, out.reshape(-1), places.reshape(-1), updates.array.reshape(-1))
    return NumpyAdapter(out, x.dtype)
