"""Exact references: Python integers and vectorised ``math``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fl_tensor.testing.hostdata import HostArray

Reference = Callable[..., Any]


def integers(exact: Reference, floating: Reference | None = None) -> Reference:
    """``exact`` on Python ints (no overflow; the comparison reduces modulo 2^bits) when the
    operands are integers, ``floating`` (default: the same function) otherwise."""

    def reference(*xs: HostArray, **kwargs: Any) -> Any:
        if xs[0].dtype.kind in "iu":
            return exact(*(_objects(x) for x in xs), **kwargs)
        return (floating or exact)(*xs, **kwargs)

    return reference


def _objects(x: Any) -> Any:
    return x.astype(object) if isinstance(x, np.ndarray) else x


def wrap(values: HostArray, dtype: np.dtype[Any]) -> HostArray:
    """Integers of any size reduced modulo 2^bits into ``dtype``."""
    bits = 8 * dtype.itemsize
    low = -(1 << (bits - 1)) if dtype.kind == "i" else 0
    exact = np.asarray(values).astype(object)
    flat = [((int(v) - low) % (1 << bits)) + low for v in exact.ravel()]
    return np.array(flat, dtype).reshape(exact.shape)


def scalar(function: Callable[..., float]) -> Reference:
    """A function of Python floats, applied to every element in float64."""
    apply = np.vectorize(function, otypes=[np.float64])
    return lambda *xs: apply(*xs) if all(np.size(x) for x in xs) else np.zeros(_shape(xs))


def _shape(xs: tuple[HostArray, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(*(np.shape(x) for x in xs))
