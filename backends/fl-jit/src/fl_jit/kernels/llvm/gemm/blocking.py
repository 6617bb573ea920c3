"""The sizes of blocks, by rule: from the sizes of the problem, of the caches and of the tile.

    k block      a tile of A (rows x k block) is read once per panel of B, a panel of B once per
                 tile of A: both stream from L2 at a sixth of what it gives, while C is read and
                 written once per k block. So a tile of A may be a little larger than L1. 768 of
                 float32 are 2 to 4 % faster than 384, on one thread and on two
    columns      of a packed block of B (k block x columns). The more there are, the more is done
                 with a tile of A and the pages of its rows once they are at hand; it may take a
                 third of L2 (the rest is for A, C and what else the core does) or, where that is
                 more and L3 gives it as fast as it is used, a quarter of a core's share of L3; of
                 L2 three quarters where A is to be read or copied less often: it comes from a far
                 L3 as often as there are blocks, and 2 to 5 % faster from one of twice the columns
    parts        of rows and columns, for threads: those that are most equal; columns rather than
                 rows, as each thread then packs what is its own. Rows, if they are many and L3 is
                 far, and B is one block: all of A is then read by one thread, not by each of them

The order of additions depends on the k block alone, which depends on k and the machine, never on
threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fl_jit.kernels.llvm import caches

#: Bytes of a number of A times k block, at most: more would not pay.
_DEEPEST = 3072
#: What it costs that several threads need the same: to wait for each other while B is packed, or
#: to read A.
_SHARED = 0.02


def k_block(k: int, rows: int, itemsize: int) -> int:
    """How much of k is done at a time: parts as equal as possible, of even length."""
    most = min(caches.level(1) * 4 // 3 // rows, _DEEPEST) // itemsize
    parts = max(-(-k // max(most, 64)), 1)
    return max(-(-k // parts) + 1 & ~1, 2)


def column_block(k: int, itemsize: int, wide: bool = False, from_third: bool = True) -> int:
    """How many columns a block of B has, at most; a ``wide`` one leaves little of L2, and one that
    may not come ``from_third`` has no more than L2."""
    l2 = caches.level(2)
    of_l2 = l2 * 3 // 4 if wide else l2 // 3
    of_l3 = min(caches.private_l3_bytes() // 4, 4 * l2) if from_third else 0
    return max(max(of_l2, of_l3) // (max(k, 1) * itemsize), 1)


def prefetched_columns(k: int, itemsize: int) -> int:
    """How many columns a block of B has that is asked for while the one before is multiplied: L2
    holds both, also where rows fall into half of its places."""
    return max(caches.level(2) // 8 // (k * itemsize), 1)


class Parts(NamedTuple):
    """Into how many parts rows and columns are cut."""

    rows: int
    columns: int


def parts(
    tiles: int,
    panels: int,
    tail: float,
    most_panels: int,
    batch: int,
    threads: int,
    tall: bool = False,
) -> Parts:
    """The grid of a product: blocks of at most ``most_panels`` panels of columns, cut so that all
    threads are done as early as possible. ``tail`` is the last panel's width, as a part of a panel.
    Rows of one block are cut first where they are ``tall``."""
    least = max(-(-panels // most_panels), 1)
    batch = max(batch, 1)

    def cost(cut: Parts) -> float:
        rounds = -(-cut.rows * cut.columns * batch // threads)
        last = panels - panels * (cut.columns - 1) // cut.columns + tail - 1
        others = panels // cut.columns + (panels % cut.columns > 1) if cut.columns > 1 else 0
        shared = (cut.columns if tall and least == 1 else cut.rows) > 1
        return rounds * -(-tiles // cut.rows) * max(last, others) * (1 + _SHARED * shared)

    def grid() -> Iterator[Parts]:
        for columns in range(least, max(min(least + 2 * threads, panels), least) + 1):
            rows = -(-threads // (columns * batch))
            yield Parts(max(min(rows, tiles), 1), columns)

    return min(grid(), key=cost)
