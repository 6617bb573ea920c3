"""The sizes of blocks, by rule: from the sizes of the problem, of the caches and of the tile.

    k block      a tile of A (rows x k block) is read once per panel of B, a panel of B once per
                 tile of A: both stream from L2 at a sixth of what it gives, while C is read and
                 written once per k block. So a tile of A may be a little larger than L1. 768 of
                 float32 are 2 to 4 % faster than 384, on one thread and on two
    columns      of a packed block of B (k block x columns). The more there are, the more is done
                 with a tile of A and the pages of its rows once they are at hand; it may take half
                 of L2 or, where that is more, a quarter of a core's share of L3
    parts        of rows and columns, for threads: columns first, as each thread then packs what
                 is its own; rows where there are too few columns

The order of additions depends on the k block alone, which depends on k and the machine, never on
threads.
"""

from __future__ import annotations

from typing import NamedTuple

from fl_tensor.backends.providers.generated import caches

#: Bytes of a number of A times k block, at most: more would not pay.
_DEEPEST = 3072


def k_block(k: int, rows: int, itemsize: int) -> int:
    """How much of k is done at a time: parts as equal as possible, of even length."""
    most = min(caches.level(1) * 4 // 3 // rows, _DEEPEST) // itemsize
    parts = max(-(-k // max(most, 64)), 1)
    return max(-(-k // parts) + 1 & ~1, 2)


def column_block(k: int, itemsize: int) -> int:
    """How many columns a block of B has, at most."""
    l2, l3 = caches.level(2), caches.level(3)
    return max(max(l2 // 2, min(l3 // 4, 4 * l2)) // (max(k, 1) * itemsize), 1)


class Parts(NamedTuple):
    """Into how many parts rows and columns are cut."""

    rows: int
    columns: int


def parts(tiles: int, panels: int, most_panels: int, batch: int, threads: int) -> Parts:
    """The grid of a product: blocks of at most ``most_panels`` panels of columns, and at least as
    many items as threads, where there is that much. A block that all threads pack would be packed
    as often, so that columns are cut first; an item that is left over when others are done would
    keep one thread busy alone, so that few items are a multiple of the threads."""
    columns = -(-panels // most_panels)
    wanted = -(-threads // max(batch, 1))
    if columns < wanted:
        columns = min(panels, wanted)
    elif batch == 1 and columns % threads and columns < 4 * threads:
        columns = min(-(-columns // threads) * threads, panels)
    return Parts(min(-(-wanted // columns), tiles), columns)
