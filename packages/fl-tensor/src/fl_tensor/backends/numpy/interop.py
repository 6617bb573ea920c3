"""Tensors as NumPy arrays and DLPack capsules, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fl_tensor import dtypes
from fl_tensor.backends.numpy.adapter import FROM_NUMPY, TO_NUMPY, NumpyAdapter
from fl_tensor.backends.numpy.capsule import BFLOAT, UINT, Integers, retag
from fl_tensor.dispatch.frontend import supported
from fl_tensor.dispatch.registry import get_backend
from fl_tensor.errors import BackendError, DTypeError

if TYPE_CHECKING:
    from fl_tensor.arrays.tensor import Tensor


def to_numpy(x: Tensor) -> np.ndarray[Any, Any]:
    """A read-only array: a view where the value is an ndarray, else over the exported bytes."""
    adapter = x.adapter
    if isinstance(adapter, NumpyAdapter):
        view = adapter.array.view()
    else:
        dtype = TO_NUMPY.get(x.dtype)
        if dtype is None:
            x = x.astype(dtypes.float32)
            dtype = TO_NUMPY[dtypes.float32]
        view = np.frombuffer(x.tobytes(), dtype).reshape(x.shape)
    view.flags.writeable = False
    return view


def to_dlpack(
    x: Tensor,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """A DLPack capsule of the value. A consumer of DLPack 1.0 sees it flagged read-only (one that
    has no read-only arrays, such as PyTorch, must not write to it). For an older one, which cannot
    be told, it is a copy unless the consumer refuses one; so are reversed axes: PyTorch knows no
    negative strides."""
    if stream is not None:
        raise BufferError(f"DLPack: a tensor in host memory has no stream, got {stream!r}")
    if dl_device is not None and tuple(map(int, dl_device)) != (1, 0):
        raise BufferError(f"DLPack: a tensor on {x.device} is not exported to device {dl_device}")
    array = to_numpy(x)
    told = max_version is not None and max_version[0] >= 1
    if copy is None:
        copy = not told or any(stride < 0 for stride in array.strides)
    if copy:
        array = array.copy()
    elif not told and isinstance(x.adapter, NumpyAdapter):
        array = x.adapter.array  # NumPy refuses to export a read-only view to those
    if x.dtype is not dtypes.bfloat16:
        return array.__dlpack__(max_version=max_version)
    capsule = array.view(np.uint16).__dlpack__(max_version=max_version)
    retag(capsule, UINT, BFLOAT)
    return capsule


def from_buffer(view: memoryview) -> NumpyAdapter:
    """Borrow a buffer without a copy; it must not be written to from now on."""
    return _borrowed(np.asarray(view))


def check_producer(source: Any) -> None:
    """Raise DTypeError for what is no producer of DLPack."""
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise DTypeError(f"[from_dlpack] a {type(source).__name__} has no __dlpack__")


def from_dlpack(source: Any) -> NumpyAdapter:
    """Borrow the producer's memory without a copy; it must not be written to from now on."""
    if isinstance(source, np.ndarray) and source.dtype in FROM_NUMPY:
        return _borrowed(source)  # also bfloat16, for which it has no capsule
    producer = Integers(source)
    try:
        array = np.from_dlpack(producer)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise BackendError(f"[from_dlpack] a {type(source).__name__}: {error}") from error
    if producer.was_bfloat16:
        dtype = supported("from_dlpack", dtypes.bfloat16, get_backend("numpy"))
        array = array.view(TO_NUMPY[dtype])
    if array.dtype not in FROM_NUMPY:
        raise DTypeError(f"[from_dlpack] NumPy dtype {array.dtype} has no counterpart here")
    return _borrowed(array)


def is_even(array: np.ndarray[Any, Any]) -> bool:
    """Whether elements are whole elements apart, as in all arrays but fields of packed records:
    kernels count strides in elements."""
    return not any(
        n > 1 and step % array.itemsize for n, step in zip(array.shape, array.strides, strict=True)
    )


def _borrowed(array: np.ndarray[Any, Any]) -> NumpyAdapter:
    view = array.view()  # a view is never the sole owner: nobody will write into it
    view.flags.writeable = False
    return NumpyAdapter(view)
