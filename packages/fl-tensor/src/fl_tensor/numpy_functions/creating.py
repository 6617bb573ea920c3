"""Arrays from objects, buffers and functions; matrices with a pattern; grids of indices."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import fl_tensor as ft
from fl_tensor import arguments, dtypes
from fl_tensor.device import DeviceLike
from fl_tensor.dispatch.frontend import ArrayLike, cast, operand, operands_of
from fl_tensor.dispatch.registry import BackendLike
from fl_tensor.functions.creation import DTypeLike
from fl_tensor.numpy_functions.shaping import ravel

__all__ = [
    "array",
    "asarray_chkfinite",
    "copy",
    "diag_indices",
    "diag_indices_from",
    "diagflat",
    "frombuffer",
    "fromfunction",
    "fromiter",
    "identity",
    "indices",
    "ix_",
    "mask_indices",
    "tri",
    "tril_indices_from",
    "triu_indices_from",
    "vander",
]

# ---- from other objects --------------------------------------------------------------------------


def array(
    obj: Any,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    backend: BackendLike | None = None,
    *,
    copy: bool | None = True,
    ndmin: int = 0,
) -> Any:
    """``ft.asarray(obj)`` as a handle of its own, with at least ``ndmin`` axes, new ones in
    front."""
    made = ft.asarray(obj, dtype, device, backend, copy)
    missing = arguments.int_of("array", ndmin, "ndmin") - made.ndim
    return ft.reshape(made, (*(1,) * missing, *made.shape)) if missing > 0 else made


def asarray_chkfinite(
    obj: Any,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    backend: BackendLike | None = None,
) -> Any:
    """``ft.asarray(obj)``; ArgumentError where it holds NaN or infinities. Reads the elements."""
    made = ft.asarray(obj, dtype, device, backend)
    if not ft.all(ft.isfinite(made)).item():
        raise ft.ArgumentError("[asarray_chkfinite] the array holds NaN or infinities")
    return made


def copy(x: ArrayLike) -> Any:
    """Another handle on the value. Values are immutable, so no data is copied."""
    return operand("copy", "A", x).copy()


def frombuffer(
    buffer: Any,
    dtype: DTypeLike = None,
    count: int = -1,
    offset: int = 0,
    device: DeviceLike = None,
    backend: BackendLike | None = None,
) -> Any:
    """The vector of ``count`` numbers (all with -1) that the bytes of ``buffer`` hold from
    ``offset`` on; copied. float64 unless ``dtype`` is given. Raises ShapeError where the bytes do
    not fit."""
    kind = dtypes.float64 if dtype is None else ft.dtype(dtype)
    try:
        data = memoryview(buffer).cast("B")
    except TypeError:
        raise ft.DTypeError(f"[frombuffer] a {type(buffer).__name__} has no bytes") from None
    start = arguments.int_of("frombuffer", offset, "offset")
    if not 0 <= start <= len(data):
        raise ft.ArgumentError(f"[frombuffer] offset {start}: expected 0 to {len(data)} bytes")
    data = data[start:]
    if count < 0:
        count = len(data) // kind.itemsize if len(data) % kind.itemsize == 0 else -1
    if count < 0 or count * kind.itemsize > len(data):
        raise ft.ShapeError(f"[frombuffer] {len(data)} bytes do not fit {kind} numbers")
    return ft.frombytes(data[: count * kind.itemsize], (count,), kind, device, backend)


def fromfunction(
    function: Callable[..., Any], shape: int | Sequence[int], *, dtype: DTypeLike = None
) -> Any:
    """``function(i, j, ...)`` of the grids of indices of ``shape``, in the default float unless
    ``dtype`` is given."""
    arguments.function_of("fromfunction", function)
    return function(*indices(shape, dtypes.default_float() if dtype is None else dtype))


def fromiter(numbers: Iterable[Any], dtype: DTypeLike = None, count: int = -1) -> Any:
    """A vector of the numbers that an iterable gives, of the first ``count`` with ``count >= 0``.
    Raises ArgumentError where there are fewer."""
    if not isinstance(numbers, Iterable):
        raise ft.DTypeError(f"[fromiter] {numbers!r}: expected an iterable of numbers")
    found = list(numbers if count < 0 else itertools.islice(numbers, count))
    if len(found) < count:
        raise ft.ArgumentError(f"[fromiter] {len(found)} numbers, but count is {count}")
    return ft.asarray(found, dtype)


# ---- matrices ------------------------------------------------------------------------------------


def identity(
    n: int,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    backend: BackendLike | None = None,
) -> Any:
    """The identity matrix (n, n)."""
    return ft.eye(n, None, 0, dtype, device, backend)


def tri(
    rows: int,
    columns: int | None = None,
    k: int = 0,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    backend: BackendLike | None = None,
) -> Any:
    """Ones on and below diagonal ``k``, zeros above: (rows, columns), square by default."""
    shape = (rows, rows if columns is None else columns)
    return ft.tril(ft.ones(shape, dtype, device, backend), k)


def diagflat(x: ArrayLike, k: int = 0) -> Any:
    """All elements in C order as diagonal ``k`` of a square matrix of zeros."""
    return ft.diag(ravel(x), k)


def vander(x: ArrayLike, n: int | None = None, increasing: bool = False) -> Any:
    """The powers of a vector (m,) as columns (m, n), square by default: from the highest to 1, or
    from 1 up with ``increasing``. dtype as ``prod``."""
    x = operand("vander", "N", x)
    x = cast(x, dtypes.sum_dtype(x.dtype))
    if x.ndim != 1:
        raise ft.ShapeError(f"[vander] x {x.shape}: expected a vector")
    count = x.size if n is None else arguments.int_of("vander", n, "n")
    columns = [ft.ones_like(x)]
    while len(columns) < count:
        columns.append(columns[-1] * x)
    made = ft.stack(columns, 1)[:, :count]
    return made if increasing else ft.flip(made, 1)


# ---- indices -------------------------------------------------------------------------------------


def indices(
    dimensions: int | Sequence[int],
    dtype: DTypeLike = dtypes.int64,
    sparse: bool = False,
    device: DeviceLike = None,
    backend: BackendLike | None = None,
) -> Any:
    """The grid of indices of an array of this shape: (n, *dimensions), one grid for each of the n
    axes. With ``sparse`` a tuple of arrays that broadcast to the grids."""
    shape = arguments.shape_of("indices", dimensions)
    rank = len(shape)
    lines = [
        ft.reshape(
            ft.arange(size, dtype=dtype, device=device, backend=backend),
            [-1 if j == i else 1 for j in range(rank)],
        )
        for i, size in enumerate(shape)
    ]
    if sparse:
        return tuple(lines)
    if not lines:
        return ft.zeros((0,), dtype, device, backend)
    return ft.stack([ft.broadcast_to(line, shape) for line in lines], 0)


def ix_(*xs: ArrayLike) -> tuple[Any, ...]:
    """Vectors as indices of the grid that they span: ``x[ft.ix_(rows, columns)]``. A vector of
    bools counts as the places where it is True."""
    made = []
    for i, line in enumerate(operands_of("ix_", "A" * len(xs), *xs) if xs else ()):
        if line.ndim != 1:
            raise ft.ShapeError(f"[ix_] argument {i} {line.shape}: expected a vector")
        if line.dtype is dtypes.bool:
            (line,) = ft.nonzero(line)
        elif line.size == 0:
            line = ft.cast(line, dtypes.int64)
        made.append(ft.reshape(line, [-1 if j == i else 1 for j in range(len(xs))]))
    return tuple(made)


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array of ``ndim`` axes of size ``n``."""
    count = arguments.int_of("diag_indices", n, "n")
    return (ft.arange(count),) * arguments.int_of("diag_indices", ndim, "ndim")


def diag_indices_from(x: ArrayLike) -> tuple[Any, ...]:
    """The indices of the main diagonal of ``x``, whose axes have one size. Raises ShapeError."""
    x = operand("diag_indices_from", "A", x)
    if x.ndim < 2 or len(set(x.shape)) != 1:
        raise ft.ShapeError(f"[diag_indices_from] x {x.shape}: expected axes of one size")
    return (ft.arange(x.shape[0], device=x.device, backend=x.backend),) * x.ndim


def tril_indices_from(x: ArrayLike, k: int = 0) -> tuple[Any, Any]:
    """``ft.tril_indices`` of the shape of the matrix ``x``."""
    x = _matrix("tril_indices_from", x)
    return ft.tril_indices(x.shape[0], k, x.shape[1], x.device, x.backend)


def triu_indices_from(x: ArrayLike, k: int = 0) -> tuple[Any, Any]:
    """``ft.triu_indices`` of the shape of the matrix ``x``."""
    x = _matrix("triu_indices_from", x)
    return ft.triu_indices(x.shape[0], k, x.shape[1], x.device, x.backend)


def _matrix(op: str, x: ArrayLike) -> Any:
    x = operand(op, "A", x)
    if x.ndim != 2:
        raise ft.ShapeError(f"[{op}] x {x.shape}: expected a matrix")
    return x


def mask_indices(n: int, function: Callable[..., Any], k: int = 0) -> tuple[Any, ...]:
    """The indices of what ``function(x, k)`` does not make zero in a matrix (n, n) of ones, such as
    ``ft.triu``."""
    arguments.function_of("mask_indices", function)
    found: tuple[Any, ...] = ft.nonzero(function(ft.ones((n, n), dtypes.int64), k))
    return found
