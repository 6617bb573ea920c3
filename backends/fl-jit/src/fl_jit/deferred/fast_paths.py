"""Fast paths of ``jit`` for small operands: one function between the front end and NumPy.

One more call would take a tenth of the time of ``x + y``. So each function inlines the body of the
NumPy backend's method for small, computed operands. For others it calls ``deferred(self, ...)``.
Operands of ``self.smallest`` elements or more count as small only while ``self.policy.rest`` is
positive. The rest is decremented here as in ``DeferralPolicy.records``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fl_memory import selection
from fl_tensor import rules
from fl_tensor.extend import is_reproducible
from fl_tensor.extend.numpy import (
    TO_NUMPY,
    Number,
    NumpyAdapter,
    NumpyBackend,
    adapt,
    errstate,
    memory,
    slice_index,
)

Value = NumpyAdapter

#: Classes of values that are computed. Other classes have a ``trace``, which names what they wait
#: for.
COMPUTED = frozenset((NumpyAdapter, Number))

_new, _ndarray, _without_warnings = object.__new__, np.ndarray, errstate.run
#: Bytes below which a test for equal shapes costs more than it saves.
_COMPARE_SHAPES_FROM = 4096


def unary(eager: Any, deferred: Callable[[Any, Value], Value]) -> Any:
    """For the NumPy backend's method ``eager``, if that is of ``ufuncs.unary``."""
    ufunc = getattr(eager, "ufunc", None)
    if ufunc is None:
        return deferred

    def operation(self: Any, x: Any) -> Value:
        if x.__class__ not in COMPUTED and x.trace is not None:
            return deferred(self, x)
        a = x.array
        nbytes = a.nbytes
        if nbytes >= self.smallest:
            size, policy = a.size, self.policy
            if policy.rest > 0 and not is_reproducible():
                policy.rest -= size
            elif size >= self.smallest:
                return deferred(self, x)
        if nbytes >= selection.always_small:
            out = memory.empty(a.shape, a.dtype)
            return NumpyAdapter(errstate.writing(nbytes)(ufunc, a, out=out), x.dtype)
        try:
            value: Any = _without_warnings(ufunc, a)
        except RuntimeError:
            value = errstate.concurrent(ufunc, a)
        if value.__class__ is not _ndarray:
            return adapt(value, x.dtype)
        adapter = _new(NumpyAdapter)
        adapter.array = value
        adapter.dtype = x.dtype
        return adapter

    return operation


def binary(eager: Any, deferred: Callable[[Any, Value, Value], Value]) -> Any:
    """For the NumPy backend's method ``eager``, if that is of ``ufuncs.binary``."""
    ufunc = getattr(eager, "ufunc", None)
    if ufunc is None:
        return deferred
    result, scalar = eager.result, eager.scalar

    def operation(self: Any, x: Any, y: Any) -> Value:
        if scalar and type(x) is Number is type(y) and selection.always_small > 8:
            try:
                value: Any = _without_warnings(scalar, x.number, y.number)
            except RuntimeError:
                value = errstate.concurrent(scalar, x.number, y.number)
            number = _new(Number)
            number.number = value
            number.dtype = x.dtype
            return number
        if (x.__class__ not in COMPUTED and x.trace is not None) or (
            y.__class__ not in COMPUTED and y.trace is not None
        ):
            return deferred(self, x, y)
        a, b = x.array, y.array
        dtype = result or x.dtype
        nbytes, shape = a.nbytes * b.size, None  # an upper bound: broadcasting makes no more
        if nbytes >= _COMPARE_SHAPES_FROM and a.shape == b.shape:
            nbytes, shape = a.nbytes, a.shape
        if nbytes >= self.smallest:
            size, other_size, policy = a.size, b.size, self.policy
            if other_size > size:
                size = other_size
            if policy.rest > 0 and not is_reproducible():
                policy.rest -= size
            elif size >= self.smallest:
                return deferred(self, x, y)
        if nbytes >= selection.always_small:
            out = memory.empty(shape or np.broadcast(a, b).shape, TO_NUMPY[dtype])
            return NumpyAdapter(errstate.writing(out.nbytes)(ufunc, a, b, out=out), dtype)
        try:
            value = _without_warnings(ufunc, a, b)
        except RuntimeError:
            value = errstate.concurrent(ufunc, a, b)
        if value.__class__ is not _ndarray:
            return adapt(value, dtype)
        adapter = _new(NumpyAdapter)
        adapter.array = value
        adapter.dtype = dtype
        return adapter

    return operation


def reshape(deferred: Callable[..., Value]) -> Any:
    """For ``reshape``. A computed array in C order is viewed, whatever its size."""

    def reshape(self: Any, x: Any, shape: tuple[int, ...]) -> Value:
        if x.__class__ not in COMPUTED and x.trace is not None:
            return deferred(self, x, shape)
        array = x.array
        if not array.flags.c_contiguous:  # reshape may copy
            if array.size >= self.smallest:
                return deferred(self, x, shape)
            return NumpyBackend.reshape(self, x, shape)
        adapter = _new(NumpyAdapter)
        adapter.array = array.reshape(shape)
        adapter.dtype = x.dtype
        return adapter

    return reshape


def slice(deferred: Callable[..., Value]) -> Any:
    """For ``slice``. A slice of a computed array is a view, whatever its size."""

    def slice(
        self: Any, x: Any, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]
    ) -> Value:
        if x.__class__ not in COMPUTED and x.trace is not None:
            return deferred(self, x, starts, sizes, steps)
        if not starts:
            return x
        array = x.array[slice_index(starts, sizes, steps)]
        if array.shape != sizes or min(starts) < 0:
            rules.slice(x, starts, sizes, steps)  # raises the error of the range
        adapter = _new(NumpyAdapter)
        adapter.array = array
        adapter.dtype = x.dtype
        return adapter

    return slice
