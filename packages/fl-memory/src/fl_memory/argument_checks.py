"""Checks of arguments, and their error messages."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from fl_memory.errors import AllocationError, BlockError, WrongManagerError

if TYPE_CHECKING:
    from fl_memory.block import Block
    from fl_memory.manager import MemoryManager

#: Powers of two up to 1 GiB.
ALIGNMENTS = frozenset(1 << bit for bit in range(31))


def checked_size(nbytes: object, alignment: object) -> int:
    """``nbytes`` as an int; AllocationError when it is no size, or the alignment none."""
    try:
        size = operator.index(nbytes)  # type: ignore[arg-type]
    except TypeError:
        size = -1
    if size < 0:
        raise AllocationError(f"[alloc] nbytes={nbytes!r}: a size is an integer >= 0")
    try:
        known = alignment in ALIGNMENTS
    except TypeError:  # a list, say
        known = False
    if not known:
        raise AllocationError(
            f"[alloc] alignment={alignment!r}: an alignment is a power of two up to 2**30"
        )
    return size


def checked_limit(limit: object, what: str = "limit") -> int | None:
    """``limit`` in bytes, as an int or None; AllocationError when it is no limit."""
    if limit is None:
        return None
    try:
        found = operator.index(limit)  # type: ignore[arg-type]
    except TypeError:
        found = -1
    if found < 0:
        raise AllocationError(f"{what} of {limit!r} bytes: give an integer >= 0, or None for none")
    return found


def foreign_block(what: str, block: Block, manager: MemoryManager) -> BlockError:
    """The error for a block that is brought to the wrong manager."""
    home = getattr(block.manager, "name", "") or type(block.manager).__name__
    return WrongManagerError(
        f"[{what}] block of {block.nbytes} bytes was made by manager {home!r}, not by this "
        f"{manager.name!r}; ask block.manager, as block.free() does"
    )
