"""``Tensor``: the user's handle around an adapter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from fl_tensor import dtypes
from fl_tensor.arguments import shape_of
from fl_tensor.arrays import elements, indexing, temporaries
from fl_tensor.arrays.array import Array
from fl_tensor.arrays.operators import Operators
from fl_tensor.arrays.short_methods import ShortMethods
from fl_tensor.arrays.temporaries import TEMPORARY
from fl_tensor.device import Device, DeviceLike
from fl_tensor.dispatch import frontend, registry, stack
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, DTypeError, ShapeError
from fl_tensor.refcounts import getrefcount

if TYPE_CHECKING:
    from typing_extensions import Self

    from fl_tensor.backend import TensorAdapter, TensorBackend


# As names of this module they are found at once.
_new, _layers = object.__new__, stack.current


class Tensor(Operators, ShortMethods, Array):
    """A value and the backend that owns it.

    Handles have value semantics: indexing gives values, and ``x[i] = v`` gives this handle a new
    one, which no other handle sees; ``x += y`` makes a new handle. Make tensors with
    ``ft.asarray``, ``ft.zeros`` ....
    """

    __slots__ = ("__weakref__", "_adapter", "_backend")

    def __init__(self, adapter: TensorAdapter, backend: TensorBackend | None = None) -> None:
        if backend is None:
            raise DTypeError(
                f"[Tensor] got a {type(adapter).__name__}: tensors are made by ft.asarray(x), "
                f"ft.zeros(shape), ...; Tensor(adapter, backend) is for backends"
            )
        self._adapter = adapter
        self._backend = backend

    #: As ``Array`` has it: the same slot, as a property would take longer.
    _raw: Any
    _is_handle: ClassVar[bool] = True
    __getitem__ = indexing.getitem

    @property
    def shape(self) -> tuple[int, ...]:
        return self._adapter.shape

    @property
    def dtype(self) -> DType:
        return self._adapter.dtype

    def _ops(self) -> Any:
        layers = _layers()
        return self._backend if layers is None else layers.over(self._backend)

    def _wrap(self, raw: Any) -> Self:
        made = _new(type(self))
        made._adapter = raw
        made._backend = self._backend
        return made

    def _tensor(self) -> Tensor:
        return self

    def _constant(self, value: Any, dtype: DType) -> Tensor:
        made = self._ops().scalar(value, dtype, self._raw.device)
        return Tensor(frontend.answer("scalar", self._backend, made), self._backend)

    @property
    def adapter(self) -> TensorAdapter:
        """The backend's value, for those who work below the front end."""
        return self._adapter

    def __setitem__(self, index: Any, value: Any) -> None:
        if getrefcount(self) <= TEMPORARY:
            temporaries.warn()
        indexing.setitem(self, index, value)

    def to(self, target: DType | Device | str | TensorBackend | type[TensorBackend]) -> Tensor:
        """The same values in another dtype, on another device, or on another backend.

        ``target`` is a DType, a Device of this tensor's backend, a backend or its class, or the
        name of one of these: dtypes come first, then devices, then installed backends. On another
        backend the values are on its first device. Raises BackendError for a device that the
        backend has not, and for a name of none of these.
        """
        if isinstance(target, DType) or (isinstance(target, str) and target in dtypes.ALL):
            return self.astype(target)
        if isinstance(target, str):
            target = registry.place_named(target, self._backend)
        if isinstance(target, Device):
            if target == self.device:
                return self.copy()
            return frombytes(self.tobytes(), self.shape, self.dtype, target, self._backend)
        if not hasattr(target, "from_host"):
            return self.astype(dtypes.dtype(target))
        target = registry.get_backend(target)
        if target is self._backend:
            return self.copy()
        return frombytes(self.tobytes(), self.shape, self.dtype, None, target)

    def _values(self) -> list[Any]:
        # The elements as Python scalars, in C order.
        return elements.unpack(self._ops().to_host(self._adapter), self.dtype)

    def numpy(self) -> Any:
        from fl_tensor.exchange import arrays

        return arrays.to_numpy(self)

    def __dlpack__(
        self,
        /,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of the value, flagged read-only: a consumer must not write to it. One
        that asks for a version before 1.0, which has no such flag, gets a copy unless
        ``copy=False``. Raises BufferError for a stream, another device, or a dtype that DLPack
        cannot carry."""
        return self._backend.to_dlpack(self._raw, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._backend.dlpack_device(self._raw)

    def __copy__(self) -> Tensor:
        return frontend.same_value(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        # Values are immutable: another handle is as good as another copy.
        return frontend.same_value(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (bytes(self.tobytes()), self.shape, self.dtype.name, self._backend.name)


Tensor._raw = vars(Tensor)["_adapter"]
Tensor._operand_class = Tensor


def frombytes(
    data: Any,
    shape: int | Sequence[int],
    dtype: DType | str | type[Any],
    device: DeviceLike = None,
    backend: registry.BackendLike | None = None,
) -> Tensor:
    """A tensor from bytes in C order and native byte order; copied. Raises ShapeError when their
    number does not fit."""
    backend, place = registry.place_for(device, backend)
    try:
        view = memoryview(data)
    except TypeError:
        raise DTypeError(f"[frombytes] a {type(data).__name__} has no bytes") from None
    view = view if view.format == "B" and view.ndim == 1 else memoryview(view.tobytes())
    size = shape_of("frombytes", shape)
    kind = frontend.supported("frombytes", dtypes.dtype(dtype), backend)
    if view.nbytes != math.prod(size) * kind.itemsize:
        raise ShapeError(
            f"[frombytes] {view.nbytes} bytes for {size} of {kind}, which takes "
            f"{math.prod(size) * kind.itemsize}"
        )
    made = stack.ops_for(backend).from_host(view, size, kind, place)
    return Tensor(frontend.answer("from_host", backend, made), backend)


def _unpickle(data: bytes, shape: tuple[int, ...], dtype: str, backend: str) -> Tensor:
    if backend not in registry.available_backends():
        raise ArgumentError(f"a pickled tensor needs backend {backend!r}, which is not installed")
    return frombytes(data, shape, dtype, None, registry.get_backend(backend))
