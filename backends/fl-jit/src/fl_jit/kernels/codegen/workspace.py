"""Work memory of kernels: a pool of pieces, each used by one call at a time."""

from __future__ import annotations

import ctypes
from typing import Any

_ALIGNMENT = 64
_free: dict[int, list[Any]] = {}


class Piece:
    """At least ``nbytes`` bytes at ``address``, which is a multiple of 64."""

    __slots__ = ("_memory", "_size", "address")

    def __init__(self, size: int) -> None:
        self._size = size
        self._memory = ctypes.create_string_buffer(size + _ALIGNMENT)
        self.address = -(-ctypes.addressof(self._memory) // _ALIGNMENT) * _ALIGNMENT

    def give_back(self) -> None:
        """Return the piece to the pool, for other calls that need about as much."""
        _free[self._size].append(self)


def take(nbytes: int) -> Piece:
    """A piece, to be given back after use.

    Sizes are powers of two, so that pieces fit many calls.
    """
    size = 1 << max(nbytes - 1, 4095).bit_length()
    try:
        return _free[size].pop()
    except (KeyError, IndexError):
        _free.setdefault(size, [])
        return Piece(size)
