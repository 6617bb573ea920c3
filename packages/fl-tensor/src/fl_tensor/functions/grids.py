"""Regular sequences, coordinate grids, and indices of triangles."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import arguments, dtypes, functions
from fl_tensor.arguments import float_of
from fl_tensor.arrays.tensor import Tensor
from fl_tensor.dispatch.frontend import operands_of
from fl_tensor.dispatch.registry import BackendLike, get_backend
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError
from fl_tensor.functions import gathering, shaping
from fl_tensor.functions.creation import DeviceLike, DTypeLike, arange, asarray, ones

__all__ = [
    "eye",
    "geomspace",
    "linspace",
    "logspace",
    "meshgrid",
    "tril_indices",
    "triu_indices",
]

#: Longer sequences are computed as arrays, shorter ones as Python numbers.
_LONG = 1 << 12
#: The longest sequence of Python numbers that is worth waiting for.
_MOST = 1 << 28


def linspace(
    start: complex,
    stop: complex,
    num: int = 50,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    endpoint: bool = True,
    backend: BackendLike | None = None,
) -> Tensor:
    """``num`` evenly spaced numbers from ``start`` to ``stop`` (included with ``endpoint``).
    The default floating dtype unless ``dtype`` is given, the complex one beside it if either is
    complex; rounded down for an integer dtype."""
    kind = complex if isinstance(start, complex) or isinstance(stop, complex) else float
    target = dtypes.of_number(kind) if dtype is None else dtypes.dtype(dtype)
    if kind is float and _is_long(num, backend):
        return _long("linspace", start, stop, num, target, device, endpoint, backend)
    values = _spaced("linspace", start, stop, num, endpoint)
    if target.is_integer:
        values = [math.floor(float_of("linspace", v, "bound")) for v in values]
    return asarray([kind(v) for v in values], target, device, backend)


def _is_long(num: Any, backend: BackendLike | None) -> bool:
    # Whether operations on arrays, in float64, are worth it.
    return type(num) is int and num > _LONG and dtypes.float64 in get_backend(backend).dtypes


def _long(
    op: str,
    start: Any,
    stop: Any,
    num: int,
    dtype: DType,
    device: DeviceLike,
    endpoint: bool,
    backend: BackendLike | None,
) -> Tensor:
    start, stop = (float_of(op, bound, "bound") for bound in (start, stop))
    places = arange(num, dtype=dtypes.float64, device=device, backend=backend)
    values = places / (num - 1 if endpoint else num) * (stop - start) + start
    if endpoint:
        values[-1] = stop
    made: Tensor = (functions.floor(values) if dtype.is_integer else values).astype(dtype)
    return made


def logspace(
    start: float,
    stop: float,
    num: int = 50,
    base: float = 10.0,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    endpoint: bool = True,
    backend: BackendLike | None = None,
) -> Tensor:
    """``base`` to the power of ``num`` evenly spaced exponents from ``start`` to ``stop``."""
    base = float_of("logspace", base, "base")
    exponents = _spaced("logspace", start, stop, num, endpoint)
    values = [_power("logspace", base, e) for e in exponents]
    return asarray(values, dtypes.default_float() if dtype is None else dtype, device, backend)


def geomspace(
    start: float,
    stop: float,
    num: int = 50,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    endpoint: bool = True,
    backend: BackendLike | None = None,
) -> Tensor:
    """``num`` numbers from ``start`` to ``stop``, each the same multiple of the one before. Raises
    ArgumentError unless both have one sign."""
    start, stop = (float_of("geomspace", v, "bound") for v in (start, stop))
    if not start * stop > 0:
        raise ArgumentError(f"[geomspace] {start} to {stop}: both must be positive or negative")
    logs = _spaced("geomspace", math.log(abs(start)), math.log(abs(stop)), num, endpoint)
    values = [math.copysign(_power("geomspace", math.e, v), start) for v in logs]
    if values:
        values[0] = start
    if endpoint and len(values) > 1:
        values[-1] = stop
    return asarray(values, dtypes.default_float() if dtype is None else dtype, device, backend)


def _spaced(op: str, start: Any, stop: Any, num: int, endpoint: bool) -> list[Any]:
    num = arguments.int_of(op, num, "num")
    if num < 0:
        raise ArgumentError(f"[{op}] num {num}: may not be negative")
    if num > _MOST:
        raise ArgumentError(f"[{op}] num {num}: at most {_MOST} are computed as Python numbers")
    start, stop = (b if isinstance(b, complex) else float_of(op, b, "bound") for b in (start, stop))
    gaps = max(num - 1 if endpoint else num, 1)
    values = [start + (stop - start) * (i / gaps) for i in range(num)]
    if endpoint and num > 1:
        values[-1] = stop
    return values


def _power(op: str, base: float, exponent: float) -> float:
    if base <= 0:
        raise ArgumentError(f"[{op}] base {base}: expected a positive number")
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def eye(
    rows: int,
    columns: int | None = None,
    k: int = 0,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    backend: BackendLike | None = None,
) -> Tensor:
    """Ones on diagonal ``k``, zeros elsewhere: (rows, columns), square by default."""
    rows, columns = arguments.shape_of("eye", (rows, rows if columns is None else columns))
    k = max(-rows, min(k, columns))  # the last diagonals that are outside
    row = arange(k, rows + k, device=device, backend=backend).reshape(rows, 1)
    return (row == arange(columns, device=device, backend=backend)).astype(
        dtypes.default_float() if dtype is None else dtype
    )


def meshgrid(*xs: Any, indexing: str = "xy") -> list[Any]:
    """Coordinate grids of 1-d arrays: ``"ij"`` in their order, ``"xy"`` the first two exchanged."""
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"[meshgrid] indexing {indexing!r}: expected 'xy' or 'ij'")
    arrays = operands_of("meshgrid", "A" * len(xs), *xs)
    rank = len(arrays)
    grids = [
        shaping.reshape(x, [-1 if j == i else 1 for j in range(rank)]) for i, x in enumerate(arrays)
    ]
    grids = shaping.broadcast_arrays(*grids) if grids else []
    if indexing == "xy" and rank > 1:
        grids = [functions.swapaxes(g, 0, 1) for g in grids]
    return grids


def tril_indices(
    rows: int,
    k: int = 0,
    columns: int | None = None,
    device: DeviceLike = None,
    backend: BackendLike | None = None,
) -> tuple[Any, Any]:
    """Row and column of every element on and below diagonal ``k``, int64 in C order; the matrix is
    square by default."""
    shape = (rows, rows if columns is None else columns)
    return _places(functions.tril(ones(shape, dtypes.bool, device, backend), k))


def triu_indices(
    rows: int,
    k: int = 0,
    columns: int | None = None,
    device: DeviceLike = None,
    backend: BackendLike | None = None,
) -> tuple[Any, Any]:
    """Row and column of every element on and above diagonal ``k``, int64 in C order; the matrix is
    square by default."""
    shape = (rows, rows if columns is None else columns)
    return _places(functions.triu(ones(shape, dtypes.bool, device, backend), k))


def _places(matrix: Any) -> tuple[Any, Any]:
    row, column = gathering.nonzero(matrix)
    return row, column
