"""Host memory as objects with the buffer protocol, through ctypes (loaded with this module)."""

from __future__ import annotations

import ctypes
from typing import Any

__all__ = ["exporter", "view"]

_array_types: dict[int, type] = {}


def view(address: int, nbytes: int, owner: object) -> memoryview:
    """``nbytes`` bytes of host memory as a writable memoryview that keeps ``owner`` alive."""
    return memoryview(exporter(address, nbytes, owner)).cast("B")


def exporter(address: int, nbytes: int, owner: object) -> Any:
    """The same as an object with the buffer protocol, such as ``numpy.ndarray(buffer=)`` takes."""
    array_type = _array_types.get(nbytes)
    if array_type is None:
        if len(_array_types) >= 4096:  # making an array type costs microseconds, keeping it memory
            _array_types.clear()
        # A subclass, because its instances can carry the reference to the owner.
        array_type = type("HostBuffer", (ctypes.c_ubyte * nbytes,), {})
        _array_types[nbytes] = array_type
    array: Any = array_type.from_address(address)  # type: ignore[attr-defined]
    array.owner = owner
    return array
