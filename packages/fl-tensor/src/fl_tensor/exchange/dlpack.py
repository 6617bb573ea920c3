"""Values as DLPack capsules, and the memory of DLPack producers as NumPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fl_tensor import dtypes
from fl_tensor.errors import BackendError, DTypeError
from fl_tensor.exchange.arrays import borrowed, shown
from fl_tensor.exchange.capsule import BFLOAT, UINT, Integers, retag
from fl_tensor.exchange.dtypes import FROM_NUMPY, TO_NUMPY

if TYPE_CHECKING:
    from fl_tensor.backend import TensorAdapter

_HOST = (1, 0)


def to_dlpack(
    x: TensorAdapter,
    ops: Any,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """A DLPack capsule of the value, as ``Tensor.__dlpack__``; ``ops.to_host`` gives the elements
    of an adapter without ``__array__``."""
    if stream is not None:
        raise BufferError(f"DLPack: a tensor in host memory has no stream, got {stream!r}")
    if dl_device is not None and tuple(map(int, dl_device)) != _HOST:
        raise BufferError(f"DLPack: a tensor on {x.device} is not exported to device {dl_device}")
    is_bfloat16 = x.dtype is dtypes.bfloat16
    array = shown(x, ops, np.dtype(np.uint16) if is_bfloat16 else TO_NUMPY[x.dtype])
    capsule = _capsule(array, max_version, copy)
    if is_bfloat16:
        retag(capsule, UINT, BFLOAT)
    return capsule


def _capsule(
    array: np.ndarray[Any, Any], max_version: tuple[int, int] | None, copy: bool | None
) -> Any:
    """A capsule of the array. A consumer of DLPack 1.0 sees it flagged read-only (one that has no
    read-only arrays, such as PyTorch, must not write to it). For an older one, which cannot be
    told, it is a copy unless the consumer refuses one; so are reversed axes: PyTorch knows no
    negative strides."""
    told = max_version is not None and max_version[0] >= 1
    if copy is None:
        copy = not told or any(stride < 0 for stride in array.strides)
    if copy:
        array = array.copy()
    elif told:  # NumPy refuses to export a read-only array to the others
        array = borrowed(array)
    return array.__dlpack__(max_version=max_version)


class Lent:
    """A read-only array of this process's memory as a DLPack producer."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return _capsule(self.array, max_version, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _HOST


def check_producer(source: Any) -> None:
    """Raise DTypeError for what is no producer of DLPack."""
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise DTypeError(f"[from_dlpack] a {type(source).__name__} has no __dlpack__")


def from_dlpack(source: Any) -> np.ndarray[Any, Any]:
    """A read-only array over the producer's memory, which must not be written to from now on.
    Raises BackendError for memory that NumPy cannot read, DTypeError for elements of no dtype."""
    array = source.array if isinstance(source, Lent) else source
    if isinstance(array, np.ndarray) and array.dtype in FROM_NUMPY:
        return borrowed(array)  # also bfloat16, for which NumPy has no capsule
    producer = Integers(source)
    try:
        array = np.from_dlpack(producer)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise BackendError(f"[from_dlpack] a {type(source).__name__}: {error}") from error
    if producer.was_bfloat16:
        array = array.view(TO_NUMPY[dtypes.bfloat16])
    if array.dtype not in FROM_NUMPY:
        raise DTypeError(f"[from_dlpack] NumPy dtype {array.dtype} has no counterpart here")
    return borrowed(array)
