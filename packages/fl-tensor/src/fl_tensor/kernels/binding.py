"""Arguments of a kernel as flat numbers: addresses and lengths of arrays, fields of records.

Nothing is copied. Buffers are held until the kernel has returned.
"""

from __future__ import annotations

import ctypes
import operator
import struct
import sys
from collections.abc import Callable
from typing import Any

from fl_tensor.arrays.array import Array
from fl_tensor.arrays.tensor import Tensor
from fl_tensor.errors import ArgumentError, DTypeError
from fl_tensor.kernels.definition import Definition
from fl_tensor.kernels.types import BOOL, INT, ArrayType, RecordType, Scalar, Type

__all__ = ["FORMATS", "bound"]

#: A function that appends the numbers of one argument, and what must be held during the call.
Binder = Callable[[Any, list[Any], list[Any]], None]

#: Formats of the struct module by the names of dtypes.
FORMATS = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H",
    "uint32": "I", "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip
_HALF = 1 << 63
_lend, _address = (ctypes.c_char * 0).from_buffer, ctypes.addressof


def bound(definition: Definition, compiled: Callable[..., Any]) -> Callable[..., Any]:
    """``compiled``, a function of flat numbers, as a function of the kernel's arguments.

    It raises DTypeError for an argument of another kind or dtype, ArgumentError for an array that
    is not contiguous or may not be written to, and for an integer beyond int64.
    """
    binders = [
        _binder(f"[{definition.name}] parameter", p.name, p.type, definition.written)
        for p in definition.parameters
    ]
    count, result = len(binders), definition.result

    def call(*args: Any) -> Any:
        if len(args) != count:
            names = ", ".join(p.name for p in definition.parameters)
            raise DTypeError(
                f"[{definition.name}] {definition.name}({names}) gets {len(args)} arguments"
            )
        numbers: list[Any] = []
        held: list[Any] = []
        for bind, value in zip(binders, args):
            bind(value, numbers, held)
        found = compiled(*numbers)
        return found if result is not BOOL and result else bool(found) if result else None

    return call


def _binder(where: str, name: str, kind: Type, written: frozenset[str]) -> Binder:
    if isinstance(kind, ArrayType):
        return _of_array(f"{where} {name!r}", kind, name in written)
    if isinstance(kind, RecordType):
        return _of_record(where, name, kind, written)
    return _of_number(f"{where} {name!r}", kind)


def _of_number(where: str, kind: Scalar) -> Binder:
    if kind == INT:

        def bind(value: Any, numbers: list[Any], held: list[Any]) -> None:
            if type(value) is not int:
                value = _index(where, value)
            if not -_HALF <= value < _HALF:
                raise ArgumentError(f"{where} gets {value}: ints of kernels have 64 bits")
            numbers.append(value)

    elif kind == BOOL:

        def bind(value: Any, numbers: list[Any], held: list[Any]) -> None:
            if value is not True and value is not False and _index(where, value) not in (0, 1):
                raise ArgumentError(f"{where} is a bool and gets {value!r}")
            numbers.append(1 if value else 0)

    else:

        def bind(value: Any, numbers: list[Any], held: list[Any]) -> None:
            numbers.append(value if type(value) is float else _float(where, value))

    return bind


def _index(where: str, value: Any) -> int:
    if type(value).__name__ in ("bool", "bool_"):  # NumPy's has no __index__
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        kind = type(value).__name__
        raise DTypeError(f"{where} is an int and gets a {kind}") from None


def _float(where: str, value: Any) -> float:
    try:
        if not isinstance(value, (str, bytes, bytearray)):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise DTypeError(f"{where} is a float and gets a {type(value).__name__}")


def _of_record(where: str, name: str, kind: RecordType, written: frozenset[str]) -> Binder:
    names = tuple(field for field, _ in kind.fields)
    binders = [
        _binder(f"{where} {name!r}, field", f"{name}.{field}", of, written)
        for field, of in kind.fields
    ]

    def bind(value: Any, numbers: list[Any], held: list[Any]) -> None:
        if getattr(value, "_fields", None) != names:
            raise DTypeError(
                f"{where} {name!r} is a {kind.name}({', '.join(names)}) and gets a "
                f"{type(value).__name__}"
            )
        for bind_field, part in zip(binders, value):
            bind_field(part, numbers, held)

    return bind


def _of_array(where: str, kind: ArrayType, is_written: bool) -> Binder:
    formats, itemsize = _formats(kind.dtype.name), kind.dtype.itemsize
    unaligned = itemsize - 1

    def bind(value: Any, numbers: list[Any], held: list[Any]) -> None:
        if isinstance(value, Array):
            view = _of_tensor(where, kind, is_written, value)
        else:
            try:
                view = memoryview(value)
            except (TypeError, BufferError, ValueError):
                raise _no_buffer(where, kind, value) from None
            if view.format not in formats:
                raise _other_dtype(where, kind, value)
        if not view.c_contiguous:
            raise ArgumentError(
                f"{where} has elements that do not lie side by side (strides {view.strides}); "
                f"copy it first, as numpy.ascontiguousarray does"
            )
        if not view.readonly:
            lent = _lend(view)
            address = _address(lent)
            held.append(lent)
        elif is_written:
            raise ArgumentError(f"{where} is written to, and the buffer is read-only; copy it")
        else:
            address = _start(view)
            held.append(view)
        if address & unaligned and view.nbytes:
            raise ArgumentError(
                f"{where} begins at an address that is no multiple of {itemsize} bytes; copy it"
            )
        numbers.append(address)
        numbers.append(view.nbytes // itemsize)

    return bind


def _formats(name: str) -> frozenset[str]:
    """How buffers describe elements of a dtype, in the byte order of this machine."""
    code, order = FORMATS[name], "<" if sys.byteorder == "little" else ">"
    codes = [c for c in "bhilq" if struct.calcsize(c) == struct.calcsize(code)]
    if code.isupper():
        codes = [c.upper() for c in codes]
    if code in "fd":
        codes = [code]
    return frozenset(
        prefix + c
        for c in codes
        for prefix in ("", "@", "=", order)
        if prefix in ("", "@") or struct.calcsize("=" + c) == struct.calcsize(code)
    )


def _of_tensor(where: str, kind: ArrayType, is_written: bool, value: Array) -> memoryview:
    if not isinstance(value, Tensor):
        raise DTypeError(
            f"{where} gets a {type(value).__name__}: kernels have no gradients; pass its Tensor"
        )
    if is_written:
        raise ArgumentError(
            f"{where} is written to, and a Tensor is a value; pass an array of "
            f"fl_tensor.kernels.empty, or a NumPy array"
        )
    if value.dtype is not kind.dtype:
        raise _other_dtype(where, kind, value)
    if value.device.kind != "cpu":
        raise ArgumentError(f"{where} is on {value.device}: kernels run on the host; .to('cpu')")
    return value.tobytes()


def _no_buffer(where: str, kind: ArrayType, value: Any) -> DTypeError:
    return DTypeError(
        f"{where} is {kind} and gets a {type(value).__name__}: pass an object with a buffer (a "
        f"NumPy array, array.array, memoryview), or a Tensor"
    )


def _other_dtype(where: str, kind: ArrayType, value: Any) -> DTypeError:
    found = getattr(value, "dtype", None) or f"format {memoryview(value).format!r}"
    return DTypeError(f"{where} is {kind} and gets {found}; convert it first, as by astype")


class _Buffer(ctypes.Structure):
    """``Py_buffer`` of Python.h, as far as it is read."""

    _fields_ = [("address", ctypes.c_void_p), ("rest", ctypes.c_void_p * 15)]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes, _release.restype = [ctypes.c_void_p], None


def _start(view: memoryview) -> int:
    """The address of the first byte of a view, which stays while the view is held."""
    if not view.nbytes:
        return 0
    buffer = _Buffer()
    place = ctypes.addressof(buffer)
    _get(view, place, 0)
    try:
        return int(buffer.address)
    finally:
        _release(place)
