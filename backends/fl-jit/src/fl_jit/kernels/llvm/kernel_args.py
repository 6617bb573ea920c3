"""Blocks of 64-bit words: how Python tells machine code sizes, distances and addresses.

    STRIP = Words("pixels row_pitch move")
    block = STRIP.block(pixels=14, row_pitch=896, move=code.address("move"))
    STRIP.read(builder, address_of_the_block, "pixels")          in machine code

A block lives as long as its ctypes array does; what machine code is given is ``address(block)``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

from llvmlite import ir

from fl_jit.kernels.codegen.vectors import IR, call, i1, i8, i64, pointer

WORD = 8


class ArgStruct:
    """The names of the words of a block, in their order."""

    def __init__(self, names: str) -> None:
        self.names = tuple(names.split())
        self._index = {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def index(self, name: str) -> int:
        """Which word it is."""
        return self._index[name]

    def block(self, **values: int) -> Any:
        """A block with these values: one for every name."""
        if values.keys() != self._index.keys():
            raise TypeError(
                f"words {sorted(values.keys() ^ self._index.keys())} missing, or unknown"
            )
        return array(values[name] for name in self.names)

    def read(self, b: IR, block: IR, name: str) -> IR:
        """The word ``name`` of the block at the address ``block``, in machine code."""
        return b.load(self.at(b, block, name), typ=i64, align=WORD)

    def read_address(self, b: IR, block: IR, name: str) -> IR:
        """As ``read``, for words that are addresses."""
        return b.load(self.at(b, block, name), typ=pointer, align=WORD)

    def call(self, b: IR, block: IR, name: str, signature: IR, arguments: Sequence[IR]) -> None:
        """Call the function whose address is the word ``name``."""
        b.call_at(self.read_address(b, block, name), signature, arguments)

    def at(self, b: IR, block: IR, name: str) -> IR:
        """Where the word ``name`` lies, in machine code."""
        return b.gep(block, [i64(self._index[name])], source_etype=i64)


def zero(b: IR, address: IR, nbytes: IR) -> None:
    """Fill memory with zeros."""
    call(b, "llvm.memset.p0.i64", ir.VoidType(), address, i8(0), nbytes, i1(0))


def array(values: Iterable[int]) -> Any:
    """Words without names."""
    found = list(values)
    return (ctypes.c_int64 * max(len(found), 1))(*found)


def address(block: Any) -> int:
    """Where a block lies."""
    return ctypes.addressof(block)
