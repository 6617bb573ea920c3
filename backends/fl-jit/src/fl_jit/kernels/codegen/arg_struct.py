"""Argument structs: blocks of named 64-bit fields that Python fills in and machine code reads.

    TILE = ArgStruct("pixels row_pitch move")
    block = TILE.block(pixels=14, row_pitch=896, move=code.address("move"))
    TILE.load(builder, address_of_the_block, "pixels")           in machine code

A block lives as long as its ctypes array. Machine code takes ``address(block)``.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from fl_jit.kernels.codegen.vectors import IR, i64, pointer

#: Bytes of a field.
FIELD = 8


class ArgStruct:
    """The fields of a block: those that differ from call to call, then the constant ones.

    ``constant`` and ``per_call`` are names, as a sequence or separated by spaces. A field is an
    int64 or an address. The ``floating`` ones among those per call are float64.
    """

    def __init__(
        self,
        constant: str | Iterable[str],
        per_call: str | Iterable[str] = (),
        floating: Collection[str] = (),
    ) -> None:
        first, rest = (
            names.split() if isinstance(names, str) else list(names)
            for names in (per_call, constant)
        )
        self.names = (*first, *rest)
        #: Number of fields that differ from call to call.
        self.per_call = len(first)
        self._index = {name: i for i, name in enumerate(self.names)}
        #: Those fields in the notation of the module ``struct``.
        self.format = "".join("d" if name in floating else "q" for name in first)
        #: ``pack_into(buffer, offset, *values)`` writes them.
        self.pack_into = struct.Struct(f"={self.format}").pack_into

    def __len__(self) -> int:
        return len(self.names)

    def values(self, fields: Mapping[str, int]) -> list[int]:
        """All fields in order, 0 where ``fields`` has no value. Raises TypeError for unknown
        names."""
        if not fields.keys() <= self._index.keys():
            raise TypeError(f"no fields {sorted(fields.keys() - self._index.keys())} in the struct")
        return [fields.get(name, 0) for name in self.names]

    def block(self, **fields: int) -> Any:
        """A block with these values, one for every name. Raises TypeError for other names."""
        missing = self._index.keys() - fields.keys()
        if missing:
            raise TypeError(f"no values for the fields {sorted(missing)}")
        return array(self.values(fields))

    # machine code

    def at(self, b: IR, block: IR, name: str) -> IR:
        """Address of a field of the block at the address ``block``."""
        return b.gep(block, [i64(self._index[name])], source_etype=i64)

    def load(self, b: IR, block: IR, name: str) -> IR:
        """A field as int64."""
        return b.load(self.at(b, block, name), typ=i64, align=FIELD)

    def load_pointer(self, b: IR, block: IR, name: str) -> IR:
        """A field as an address."""
        return b.load(self.at(b, block, name), typ=pointer, align=FIELD)

    def fields(self, b: IR, block: IR, where_used: bool = False) -> Mapping[str, IR]:
        """The fields as int64, by name. Each is loaded once, at the beginning of the function; or
        wherever it is used, for functions with more fields than registers."""
        return _Fields(self, b, block, where_used)


class _Fields(dict[str, IR]):
    def __init__(self, layout: ArgStruct, b: IR, block: IR, where_used: bool) -> None:
        super().__init__()
        self._layout, self._b, self._block, self._where_used = layout, b, block, where_used

    def __missing__(self, name: str) -> IR:
        if self._where_used:
            return self._layout.load(self._b, self._block, name)
        with self._b.goto_entry_block():
            self[name] = self._layout.load(self._b, self._block, name)
        return self[name]


def array(values: Iterable[int]) -> Any:
    """A table of int64, at least one."""
    found = list(values)
    return (ctypes.c_int64 * max(len(found), 1))(*found)


def address(block: Any) -> int:
    """Address of a block or table."""
    return ctypes.addressof(block)
