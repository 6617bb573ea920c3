"""Argument structs: blocks of 64-bit fields with sizes, distances and addresses for machine code.

    TILE = ArgStruct("pixels row_pitch move")
    block = TILE.block(pixels=14, row_pitch=896, move=code.address("move"))
    TILE.read(builder, address_of_the_block, "pixels")           in machine code

A block lives as long as its ctypes array. Machine code takes ``address(block)``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

from llvmlite import ir

from fl_jit.kernels.codegen.vectors import IR, call, i1, i8, i64, pointer

WORD = 8


class ArgStruct:
    """The names of the fields of a block, in order."""

    def __init__(self, names: str) -> None:
        self.names = tuple(names.split())
        self._index = {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def index(self, name: str) -> int:
        """Index of a field."""
        return self._index[name]

    def block(self, **values: int) -> Any:
        """A block with these values, one for every name."""
        if values.keys() != self._index.keys():
            raise TypeError(
                f"words {sorted(values.keys() ^ self._index.keys())} missing, or unknown"
            )
        return array(values[name] for name in self.names)

    def read(self, b: IR, block: IR, name: str) -> IR:
        """The field ``name`` of the block at the address ``block``, in machine code."""
        return b.load(self.at(b, block, name), typ=i64, align=WORD)

    def read_address(self, b: IR, block: IR, name: str) -> IR:
        """As ``read``, for fields that are addresses."""
        return b.load(self.at(b, block, name), typ=pointer, align=WORD)

    def call(self, b: IR, block: IR, name: str, signature: IR, arguments: Sequence[IR]) -> None:
        """Call the function whose address is the field ``name``."""
        b.call_at(self.read_address(b, block, name), signature, arguments)

    def at(self, b: IR, block: IR, name: str) -> IR:
        """Address of the field ``name``, in machine code."""
        return b.gep(block, [i64(self._index[name])], source_etype=i64)


def zero(b: IR, address: IR, nbytes: IR) -> None:
    """Fill memory with zeros."""
    call(b, "llvm.memset.p0.i64", ir.VoidType(), address, i8(0), nbytes, i1(0))


def array(values: Iterable[int]) -> Any:
    """Fields without names."""
    found = list(values)
    return (ctypes.c_int64 * max(len(found), 1))(*found)


def address(block: Any) -> int:
    """Address of a block."""
    return ctypes.addressof(block)
