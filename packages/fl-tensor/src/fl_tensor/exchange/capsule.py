"""DLPack capsules of bfloat16, exchanged with NumPy as 16-bit integers under another dtype code."""

from __future__ import annotations

import ctypes
from typing import Any

#: DLPack's codes for kinds of elements.
UINT, BFLOAT = 1, 4


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _DLTensor),)


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


_LAYOUTS: dict[bytes, Any] = {b"dltensor": _Managed, b"dltensor_versioned": _ManagedVersioned}
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


def retag(capsule: Any, before: int, after: int) -> bool:
    """Change the code of a capsule's elements, if they are 16 bits of code ``before``; whether they
    were."""
    for name, layout in _LAYOUTS.items():
        if _is_valid(capsule, name):
            tensor = layout.from_address(_pointer(capsule, name)).tensor
            if (tensor.code, tensor.bits) == (before, 16):
                tensor.code = after
                return True
    return False


class Integers:
    """A DLPack producer of what ``source`` produces, with integers in place of bfloat16."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.was_bfloat16 = False

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.source.__dlpack__(**options)
        self.was_bfloat16 = retag(capsule, BFLOAT, UINT)
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.source.__dlpack_device__()
