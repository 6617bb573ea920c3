"""Creation of tensors: from Python values, foreign arrays, or a shape."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from fl_tensor import arguments, dtypes, functions
from fl_tensor.arguments import refuse, shape_of
from fl_tensor.arrays.array import Array
from fl_tensor.arrays.elements import pack
from fl_tensor.arrays.tensor import Tensor
from fl_tensor.arrays.tensor import frombytes as frombytes
from fl_tensor.device import Device
from fl_tensor.device import DeviceLike as DeviceLike
from fl_tensor.dispatch import frontend, registry
from fl_tensor.dispatch.frontend import supported
from fl_tensor.dispatch.registry import place_for as place_for
from fl_tensor.dispatch.stack import ops_for
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, DTypeError, FlError
from fl_tensor.functions import coercion

if TYPE_CHECKING:
    from fl_tensor.backend import TensorBackend

DTypeLike = DType | str | type[Any] | None
#: Numbers between it and its negative fit int64, and are not looked at again.
_SAFE = 1 << 62


def asarray(
    obj: Any,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    backend: registry.BackendLike | None = None,
    copy: bool | None = None,
) -> Any:
    """A tensor with the values of ``obj``: a Python scalar, nested sequences of them, an object
    with the buffer protocol (``array.array``, a NumPy array), DLPack or ``__array__`` (a column of
    pandas). Arrays are returned as they are, or with ``copy=True`` as another handle; everything
    else is copied. With ``copy=False`` the tensor borrows the memory of ``obj``, and the caller
    promises that nobody writes to it from now on.

    dtype defaults to the source's, NumPy's scalars included; Python ints give int64, floats the
    default floating dtype (float32, see ``set_default_dtype``), bools bool. As a dtype Python's
    ``float`` is float64. Raises ShapeError for ragged sequences, DTypeError for elements that are
    no numbers, ArgumentError where ``copy=False`` cannot be.
    """
    wanted = None if dtype is None else dtypes.dtype(dtype)
    if isinstance(obj, Array):
        x: Any = obj if not copy else frontend.same_value(obj)
        home = x._backend if backend is None else registry.get_backend(backend)
        if home is not x._backend:
            if copy is False:
                raise ArgumentError(
                    f"[asarray] from backend {x._backend.name!r} to {home.name!r} only by a copy"
                )
            x = x.to(home)
        place = x.device if device is None else Device.parse(device)
    else:
        backend, place = place_for(device, backend)
        if copy is not False:
            x = _import(obj, wanted, place, backend)
            return x if wanted is None else frontend.cast(x, wanted)
        from fl_tensor.functions import foreign_memory

        x = foreign_memory.borrow(obj, backend)
    if copy is False and (place != x.device or wanted not in (None, x.dtype)):
        raise ArgumentError(
            f"[asarray] {x.dtype} on {x.device} becomes {wanted or x.dtype} on {place} only by a "
            f"copy"
        )
    if wanted is not None and x.dtype is not wanted:
        x = frontend.cast(x, wanted)
    return x if place == x.device else x.to(place)


def _import(obj: Any, wanted: DType | None, place: Device, backend: TensorBackend) -> Tensor:
    if isinstance(obj, arguments.SCALARS):
        dtype = wanted or dtypes.of_number(type(obj))
        return full((), obj, dtype, place, backend)
    if not isinstance(obj, (list, tuple, range)):
        from fl_tensor.functions import foreign_memory

        view = coercion.buffer_of(obj)
        if view is not None:
            return foreign_memory.from_buffer(view, place, backend)
        if hasattr(obj, "__dlpack__"):
            return foreign_memory.from_producer(obj, place, backend)
        if coercion.is_shown(obj):
            return foreign_memory.from_array(obj, place, backend)
        if not isinstance(obj, Sequence) or isinstance(obj, str):
            raise coercion.unreadable(obj)
    kinds = set(map(type, obj))
    if wanted is None and (kinds == {float} or kinds == {int}):  # the short way of most lists
        dtype = supported("asarray", dtypes.of_number(*kinds), backend)
        made = ops_for(backend).from_host(memoryview(pack(obj, dtype)), (len(obj),), dtype, place)
        return Tensor(frontend.answer("from_host", backend, made), backend)
    if coercion.NUMBERS.issuperset(kinds):
        return _from_lists(obj, wanted, place, backend)
    if type(obj[0]).__module__ == "numpy":
        from fl_tensor.functions import foreign_memory

        found = foreign_memory.from_numpy(obj, wanted is None, place, backend)
        if found is not None:
            return found
    if _holds_arrays(obj):
        coercion.require_shallow(obj)
        return functions.stack([asarray(o, None, place, backend) for o in obj])
    return _from_lists(obj, wanted, place, backend)


def _holds_arrays(obj: Sequence[Any]) -> bool:
    # Ours, or those of another library. Without axes these are numbers.
    if any(isinstance(o, Array) for o in obj):
        return True
    first = obj[0]
    if isinstance(first, arguments.SCALARS) or getattr(first, "shape", None) == ():
        return False
    readable = hasattr(first, "__dlpack__") or coercion.is_shown(first)
    return readable or coercion.buffer_of(first) is not None


def _from_lists(
    obj: Sequence[Any], wanted: DType | None, place: Device, backend: TensorBackend
) -> Tensor:
    shape, flat, found = coercion.numbers(obj)
    dtype = supported("asarray", wanted or found, backend)
    if dtype.is_integer and found.kind in "fc":
        flat = [arguments.scalar("asarray", v, dtype) for v in flat]
    data = memoryview(pack(flat, dtype))
    made = ops_for(backend).from_host(data, shape, dtype, place)
    return Tensor(frontend.answer("from_host", backend, made), backend)


def from_dlpack(
    obj: Any,
    backend: registry.BackendLike | None = None,
    device: DeviceLike = None,
    copy: bool | None = None,
) -> Tensor:
    """A tensor over the memory of a DLPack producer, without a copy where the backend can (else a
    copy). The caller promises that nobody writes to it from now on; not with ``copy=True``, which
    always copies. Raises DTypeError for an object that is no producer, BackendError for memory that
    this process cannot read so, ArgumentError where ``copy=False`` cannot be."""
    backend, place = place_for(device, backend)
    from fl_tensor.exchange import dlpack  # now: a backend may import NumPy in a way of its own
    from fl_tensor.functions import foreign_memory

    dlpack.check_producer(obj)
    adapter = None if copy else backend.from_dlpack(obj, place)
    if adapter is not None:
        return Tensor(adapter, backend)
    if copy is False:
        raise ArgumentError(f"[from_dlpack] backend {backend.name!r} reads this memory by a copy")
    return foreign_memory.copy_of(obj, place, backend)


def full(
    shape: int | Sequence[int],
    fill_value: Any,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    backend: registry.BackendLike | None = None,
) -> Tensor:
    """All elements equal to the Python scalar ``fill_value``; dtype defaults to the scalar's. A
    float for an integer dtype is truncated; DTypeError for an integer that does not fit."""
    return _filled("full", shape, fill_value, dtype, device, backend)


def _filled(
    op: str,
    shape: int | Sequence[int],
    value: Any,
    dtype: DTypeLike,
    device: DeviceLike,
    backend: registry.BackendLike | None,
) -> Tensor:
    backend, place = place_for(device, backend)
    if isinstance(dtype, int):  # the second size of a shape
        raise DTypeError(f"[{op}] dtype {dtype}: a shape is one argument, as in {op}((2, 3))")
    kind = dtypes.of_number(type(value)) if dtype is None else dtypes.dtype(dtype)
    shape, value = shape_of(op, shape), arguments.scalar(op, value, kind)
    return created(backend, "full", shape, value, supported(op, kind, backend), place)


def zeros(
    shape: int | Sequence[int],
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    backend: registry.BackendLike | None = None,
    **foreign: NoReturn,
) -> Tensor:
    """All elements 0; of the default floating dtype unless ``dtype`` is given."""
    if foreign:
        refuse("zeros", foreign)
    dtype = dtypes.default_float() if dtype is None else dtype
    return _filled("zeros", shape, 0, dtype, device, backend)


def empty(
    shape: int | Sequence[int],
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    backend: registry.BackendLike | None = None,
) -> Tensor:
    """As ``zeros``: a value is a value, there are none that nobody wrote."""
    dtype = dtypes.default_float() if dtype is None else dtype
    return _filled("empty", shape, 0, dtype, device, backend)


def ones(
    shape: int | Sequence[int],
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    backend: registry.BackendLike | None = None,
    **foreign: NoReturn,
) -> Tensor:
    """All elements 1; of the default floating dtype unless ``dtype`` is given."""
    if foreign:
        refuse("ones", foreign)
    dtype = dtypes.default_float() if dtype is None else dtype
    return _filled("ones", shape, 1, dtype, device, backend)


def zeros_like(x: Any, dtype: DTypeLike = None, device: DeviceLike = None) -> Tensor:
    """Zeros with the shape, dtype, device and backend of ``x``."""
    return full_like(x, 0, dtype, device)


def empty_like(x: Any, dtype: DTypeLike = None, device: DeviceLike = None) -> Tensor:
    """As ``zeros_like``."""
    return zeros_like(x, dtype, device)


def ones_like(x: Any, dtype: DTypeLike = None, device: DeviceLike = None) -> Tensor:
    """Ones with the shape, dtype, device and backend of ``x``."""
    return full_like(x, 1, dtype, device)


def full_like(
    x: Any, fill_value: Any, dtype: DTypeLike = None, device: DeviceLike = None
) -> Tensor:
    """``fill_value`` with the shape, dtype, device and backend of ``x``."""
    x = asarray(x)
    dtype, device = x.dtype if dtype is None else dtype, x.device if device is None else device
    return full(x.shape, fill_value, dtype, device, x._backend)


def arange(
    start: int | float,
    stop: int | float | None = None,
    step: int | float = 1,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    backend: registry.BackendLike | None = None,
) -> Tensor:
    """``start, start + step, ...`` below ``stop``; ``arange(n)`` counts from 0. int64 for ints."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ArgumentError("[arange] step is 0")
    backend, place = place_for(device, backend)
    start, stop, step = [n if type(n) is int else _bound(n) for n in (start, stop, step)]
    floating = float in (type(start), type(stop), type(step))
    usual = dtypes.default_float() if floating else dtypes.DEFAULT_INT
    kind = usual if dtype is None else dtypes.dtype(dtype)
    count = math.ceil((stop - start) / step)
    if kind.is_integer and count > 0:
        ends = start, start + (count - 1) * step
        if kind is not dtypes.int64 or not -_SAFE < min(ends) <= max(ends) < _SAFE:
            for end in ends:
                arguments.scalar("arange", end, kind)
    return created(backend, "arange", start, stop, step, supported("arange", kind, backend), place)


def created(backend: TensorBackend, op: str, *arguments: Any) -> Tensor:
    """What an operation without operands makes. OutOfMemoryError where the backend's library has
    no memory for it, ShapeError for more axes than it can have."""
    try:
        made = getattr(ops_for(backend), op)(*arguments)
    except FlError:
        raise
    except Exception as error:
        raise frontend.too_large(op, backend, arguments, error) or error from error
    return Tensor(frontend.answer(op, backend, made), backend)


def _bound(value: Any) -> int | float:
    # An int stays one, whatever its class; all else is a finite float.
    try:
        return operator.index(value)
    except TypeError:
        number = arguments.float_of("arange", value, "bound")
    if not math.isfinite(number):
        raise ArgumentError(f"[arange] {number}: start, stop and step must be finite")
    return number
