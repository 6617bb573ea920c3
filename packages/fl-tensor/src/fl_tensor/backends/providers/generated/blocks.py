"""The sizes of blocks, by rule: from the sizes of the problem, of the caches and of the tile.

    k block      a panel of B (k block x panel) goes through L1 once per tile of rows, and a tile of A
                 (rows x k block) is read again for every panel: both come from L2 at the speed that
                 is needed, so that k block is as large as keeps the tile of A within most of L1
    columns      the packed block of B (k block x columns) takes half of L2; the other half is for
                 A and C on their way through
    parts        of rows and columns, for threads: columns first, as each thread then packs what
                 is its own; rows where there are too few columns

The order of additions depends on the k block alone, which depends on k and the machine, never on
threads.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

#: Where caches cannot be asked for their sizes.
L1, L2 = 32 << 10, 1 << 20
_SYSTEM = Path("/sys/devices/system/cpu/cpu0/cache")


class Caches(NamedTuple):
    """Bytes of the first and second level that a core has for data."""

    l1: int
    l2: int


@functools.cache
def caches() -> Caches:
    """Those of this machine."""
    found = {1: L1, 2: L2}
    try:
        for index in _SYSTEM.glob("index*"):
            kind, level, size = (
                (index / name).read_text(encoding="ascii").strip()
                for name in ("type", "level", "size")
            )
            if kind != "Instruction" and int(level) in found and size.endswith("K"):
                found[int(level)] = int(size[:-1]) << 10
    except (OSError, ValueError):
        found = {1: L1, 2: L2}
    return Caches(found[1], found[2])


def k_block(k: int, rows: int, itemsize: int) -> int:
    """How much of k is done at a time: parts as equal as possible, of even length."""
    most = max(caches().l1 * 3 // 4 // (rows * itemsize), 64)
    parts = max(-(-k // most), 1)
    return max(-(-k // parts) + 1 & ~1, 2)


def column_block(k: int, itemsize: int) -> int:
    """How many columns a block of B has, at most."""
    return max(caches().l2 // 2 // (max(k, 1) * itemsize), 1)


class Parts(NamedTuple):
    """Into how many parts rows and columns are cut."""

    rows: int
    columns: int


def parts(tiles: int, panels: int, most_panels: int, batch: int, threads: int) -> Parts:
    """The grid of a product: blocks of at most ``most_panels`` columns, and as many items as keep
    the threads busy to the end, where there is that much."""
    columns = -(-panels // most_panels)
    if threads == 1:
        return Parts(1, columns)
    wanted = threads if batch % threads or batch < 2 * threads else 1
    wanted = -(-wanted // min(batch, wanted))
    if columns < wanted:
        columns = min(panels, wanted)
    elif columns % wanted and columns < 4 * wanted:
        columns = min(-(-columns // wanted) * wanted, panels)
    rows = min(-(-wanted // columns), tiles)
    return Parts(rows, columns)
