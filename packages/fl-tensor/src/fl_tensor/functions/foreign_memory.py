"""Tensors from what other libraries hold: buffers, producers of DLPack, arrays of NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fl_tensor.arrays.elements import swapped
from fl_tensor.arrays.tensor import Tensor, frombytes
from fl_tensor.device import Device
from fl_tensor.errors import ArgumentError, BackendError, DTypeError
from fl_tensor.functions import coercion

if TYPE_CHECKING:
    from fl_tensor.backend import TensorBackend


def borrow(obj: Any, backend: TensorBackend) -> Tensor:
    view = coercion.buffer_of(obj)
    if view is not None and coercion.format_of(view)[1]:
        raise ArgumentError("[asarray] the buffer's byte order is foreign: it is read by a copy")
    source, made = obj, None
    if view is not None:
        from fl_tensor.exchange import arrays, dlpack

        array = arrays.from_buffer(view)
        source = None if array is None else dlpack.Lent(array)
    if hasattr(source, "__dlpack__"):
        made = backend.from_dlpack(source, backend.devices()[0])
    if made is None:
        raise ArgumentError(
            f"[asarray] backend {backend.name!r} reads a {type(obj).__name__} only by a copy"
        )
    return Tensor(made, backend)


def from_producer(obj: Any, place: Device, backend: TensorBackend) -> Tensor:
    try:
        return copy_of(obj, place, backend)
    except BackendError as error:
        if obj.__dlpack_device__()[0] != 1:  # not the host's memory
            raise
        raise DTypeError(f"[asarray] cannot read a {type(obj).__name__}: {error}") from error


def copy_of(producer: Any, place: Device, backend: TensorBackend) -> Tensor:
    """A copy of what a producer of DLPack has in host memory."""
    from fl_tensor.exchange import arrays, dlpack
    from fl_tensor.exchange.dtypes import FROM_NUMPY

    dlpack.check_producer(producer)
    array = dlpack.from_dlpack(producer)
    dtype = FROM_NUMPY[array.dtype]
    return frombytes(arrays.to_bytes(array), array.shape, dtype, place, backend)


def from_array(obj: Any, place: Device, backend: TensorBackend) -> Tensor:
    from fl_tensor.exchange import arrays

    array, dtype = arrays.as_numpy(obj)
    return frombytes(arrays.to_bytes(array), array.shape, dtype, place, backend)


def from_buffer(view: memoryview, place: Device, backend: TensorBackend) -> Tensor:
    dtype, foreign = coercion.format_of(view)
    data = swapped(view.tobytes(), dtype) if foreign else view.tobytes()
    return frombytes(data, tuple(view.shape or ()), dtype, place, backend)


def from_numpy(
    objects: Sequence[Any], scalars: bool, place: Device, backend: TensorBackend
) -> Tensor | None:
    """Arrays of NumPy that are alike, or its ``scalars``, along a new first axis; else None."""
    from fl_tensor.exchange import arrays

    found = arrays.joined(objects)
    if found is None or (found[0].ndim == 1 and not scalars):
        return None
    array, dtype = found
    return frombytes(arrays.to_bytes(array), array.shape, dtype, place, backend)
