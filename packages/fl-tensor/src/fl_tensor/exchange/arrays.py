"""Values as NumPy arrays and as bytes, and buffers as NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.errors import DTypeError
from fl_tensor.exchange.dtypes import FROM_NUMPY, TO_NUMPY

if TYPE_CHECKING:
    from fl_tensor.backend import TensorAdapter


def to_numpy(x: Any) -> np.ndarray[Any, Any]:
    """A read-only array of the value of a Tensor: a view where the adapter has ``__array__``, else
    over the bytes that ``to_host`` gives. A bfloat16 without ``ml_dtypes`` becomes float32."""
    adapter: Any = x._adapter
    if hasattr(adapter, "__array__"):
        view: np.ndarray[Any, Any] = adapter.__array__().view()
        view.flags.writeable = False
        return view
    ops = x._ops()
    if adapter.dtype not in TO_NUMPY:
        adapter = ops.cast(adapter, dtypes.float32)
    return shown(adapter, ops, TO_NUMPY[adapter.dtype])


def shown(x: TensorAdapter, ops: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The elements as ``dtype``, which has their width; without a copy where that can be."""
    if hasattr(x, "__array__"):
        view: np.ndarray[Any, Any] = x.__array__().view(dtype)
        return view
    return np.frombuffer(ops.to_host(x), dtype).reshape(x.shape)


def from_buffer(view: memoryview) -> np.ndarray[Any, Any] | None:
    """A read-only array over a buffer, which must not be written to from now on; None where its
    elements are no whole elements apart."""
    array = borrowed(np.asarray(view))
    return array if is_even(array) else None


def as_numpy(obj: Any) -> tuple[np.ndarray[Any, Any], DType]:
    """What an object shows by ``__array__``, in native byte order, and its dtype. DTypeError for
    what holds no numbers."""
    array = np.asarray(obj)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype not in FROM_NUMPY:
        raise DTypeError(
            f"[asarray] cannot read a {type(obj).__name__} of dtype {array.dtype}: expected "
            f"numbers; convert it first, as by x.astype('float32')"
        )
    return array, FROM_NUMPY[array.dtype]


def joined(objects: Sequence[Any]) -> tuple[np.ndarray[Any, Any], DType] | None:
    """NumPy's arrays of one shape and dtype, or its scalars of one dtype, along a new first axis;
    None for anything else."""
    kinds = set(map(type, objects))
    if len(kinds) > 1:
        return None
    (kind,) = kinds
    if kind is np.ndarray:
        first = objects[0]
        if any(x.dtype != first.dtype or x.shape != first.shape for x in objects):
            return None
    elif not issubclass(kind, np.generic):
        return None
    array = np.array(objects)
    return (array, FROM_NUMPY[array.dtype]) if array.dtype in FROM_NUMPY else None


def to_bytes(array: np.ndarray[Any, Any]) -> memoryview:
    """The bytes in C order, as ``TensorBackend.from_host`` takes them; no copy if they lie so."""
    flat: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return memoryview(flat).toreadonly()


def borrowed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A read-only view: it is never the sole owner, so that nobody writes into it."""
    view = array.view()
    view.flags.writeable = False
    return view


def is_even(array: np.ndarray[Any, Any]) -> bool:
    """Whether elements are whole elements apart, as in all arrays but fields of packed records:
    kernels count strides in elements."""
    return not any(
        n > 1 and step % array.itemsize for n, step in zip(array.shape, array.strides, strict=True)
    )
