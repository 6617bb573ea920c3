"""Data type functions: ``astype``, ``can_cast``, ``finfo``, ``isdtype``, ``result_type``."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_tensor import dtypes
from fl_tensor.arrays.array import Array
from fl_tensor.device import Device
from fl_tensor.dtypes import DType
from fl_tensor.limits import FloatInfo, IntInfo

Kind = DType | str | tuple[DType | str, ...]

#: The standard's names of kinds, in terms of ``DType.kind``.
KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def isdtype(dtype: DType, kind: Kind) -> bool:
    """Whether ``dtype`` is ``kind``: a dtype, the name of a kind, or a tuple of these, any of which
    may hold. float16 and bfloat16 are ``"real floating"``."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ft.ArgumentError(f"[isdtype] kind {kind!r}: expected one of {', '.join(KINDS)}")
        return ft.dtype(dtype).kind in KINDS[kind]
    return ft.dtype(dtype) is ft.dtype(kind)


def finfo(type: DType | Array, /) -> FloatInfo:
    """Limits of a floating dtype; those of the parts for a complex one."""
    return ft.finfo(type)


def iinfo(type: DType | Array, /) -> IntInfo:
    """Limits of an integer dtype."""
    return ft.iinfo(type)


def result_type(*arrays_and_dtypes: Array | DType | bool | int | float | complex) -> DType:
    """The dtype of an operation on these. Python scalars are weak; beside them an array or a dtype
    is needed."""
    found: DType | None = None
    scalars: list[Any] = []
    for given in arrays_and_dtypes:
        if isinstance(given, (bool, int, float, complex)):
            scalars.append(given)
            continue
        one = _dtype_of(given)
        found = one if found is None else dtypes.promote(found, one, "result_type")
    if found is None:
        raise ft.ArgumentError("[result_type] expected at least one array or dtype")
    for value in scalars:
        found = dtypes.result_for_scalar(found, value, "result_type")
    return found


def _dtype_of(given: DType | Array) -> DType:
    return given.dtype if isinstance(given, Array) else ft.dtype(given)


def can_cast(from_: DType | Array, to: DType, /) -> bool:
    """Whether promotion may lead from the one dtype to the other."""
    source, target = _dtype_of(from_), ft.dtype(to)
    try:
        return dtypes.promote(source, target, "can_cast") is target
    except ft.DTypeError:
        return False


def astype(x: Array, dtype: DType, /, *, copy: bool = True, device: Device | None = None) -> Array:
    """``x`` in another dtype; with ``copy=False`` ``x`` itself where nothing changes. A complex
    ``x`` becomes real by ``real`` or ``imag`` only: DTypeError."""
    if x.dtype.kind == "c" and dtype.kind in "iuf":
        raise ft.DTypeError(f"[astype] {x.dtype} to {dtype}: take real(x) or imag(x) first")
    made = x if device is None else x.to_device(device)
    if made.dtype is not dtype:
        return made.astype(dtype)
    return made.copy() if copy else made
