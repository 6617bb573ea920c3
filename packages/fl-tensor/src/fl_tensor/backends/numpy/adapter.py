"""The value of the NumPy backend: an ndarray that is not modified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fl_tensor import dtypes
from fl_tensor.backend import TensorAdapter
from fl_tensor.device import CPU, Device
from fl_tensor.dtypes import DType
from fl_tensor.exchange.dtypes import FROM_NUMPY as FROM_NUMPY
from fl_tensor.exchange.dtypes import TO_NUMPY as TO_NUMPY
from fl_tensor.refcounts import count_if_alone, getrefcount

SUPPORTED = frozenset(TO_NUMPY)


class NumpyAdapter(TensorAdapter):
    """An ndarray and its dtype."""

    __slots__ = ("__weakref__", "array", "dtype")

    dtype: DType

    def __init__(self, array: np.ndarray[Any, Any], dtype: DType | None = None) -> None:
        self.array = array
        self.dtype = FROM_NUMPY[array.dtype] if dtype is None else dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def device(self) -> Device:
        return CPU

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.array


class Number(NumpyAdapter):
    """A single float32 or float64 as a NumPy scalar: arithmetic takes a third of the time that it
    takes on arrays without axes, and half of the memory. The array is made when asked for."""

    __slots__ = ("number",)

    number: np.floating[Any]
    shape = ()

    def __init__(self, number: np.floating[Any]) -> None:
        self.number = number
        self.dtype = NUMBERS[number.__class__]

    def __getattr__(self, name: str) -> Any:
        if name != "array":
            raise AttributeError(f"a value of backend 'numpy' has no attribute {name!r}")
        self.array = np.asarray(self.number)
        return self.array


#: The classes of scalar that a ``Number`` may hold, and their dtypes.
NUMBERS: dict[type, DType] = {np.float32: dtypes.float32, np.float64: dtypes.float64}


def adapt(found: Any, dtype: DType | None = None) -> NumpyAdapter:
    """What a NumPy function returned, an array or a scalar, as a value."""
    if found.__class__ is np.ndarray:
        return NumpyAdapter(found, dtype)
    if found.__class__ in NUMBERS:
        return Number(found)
    return NumpyAdapter(np.asarray(found), dtype)


def _references(adapter: NumpyAdapter) -> tuple[int, int, int]:
    # Who holds the adapter, its array, and the array whose memory that shows, if it is a view.
    array = adapter.array
    base = array.base
    return getrefcount(adapter), getrefcount(array), getrefcount(base)


class _Donation:
    # A donated adapter at the depth at which ``is_sole_owner`` sees it: given by a variable of the
    # caller to a method of the backend, and by that to a function.
    def method(self, x: NumpyAdapter, donate: bool) -> tuple[int, int, int]:
        return _received(x)

    def count(self, only: list[NumpyAdapter], which: int) -> int:
        adapter = only.pop()
        return self.method(adapter, donate=True)[which]


def _received(adapter: NumpyAdapter) -> tuple[int, int, int]:
    return _references(adapter)


def _calibrated(which: int, counted: Callable[[NumpyAdapter], Any]) -> int:
    return count_if_alone(
        lambda only: _Donation().count(only, which),
        lambda: [NumpyAdapter(np.empty(2, np.float32)[1:])],
        lambda only: counted(only[0]),
    )


#: What ``_references`` finds where nobody else holds an adapter, its array, and that array's base.
_SOLE = (
    _calibrated(0, lambda adapter: adapter),
    _calibrated(1, lambda adapter: adapter.array),
    _calibrated(2, lambda adapter: adapter.array.base),
)


def is_sole_owner(adapter: NumpyAdapter) -> bool:
    """Whether a donated adapter's storage is seen by nobody else: no other holder of the adapter,
    no view of its array (an export is one), and if the array is a view itself, none other of the
    same memory."""
    held, viewed, shown = _references(adapter)
    if held > _SOLE[0] or viewed > _SOLE[1]:
        return False
    array = adapter.array
    base = array.base
    if isinstance(base, np.ndarray) and (shown > _SOLE[2] or isinstance(base.base, np.ndarray)):
        return False
    return array.flags.writeable
