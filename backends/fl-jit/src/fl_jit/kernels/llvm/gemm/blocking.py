"""Block sizes by rule, from the sizes of the problem, of the caches and of the tile.

* k block: a tile of A (rows x k block) is read once per panel of B, and a panel of B once per tile
  of A. Both stream from L2 at a sixth of its bandwidth. C is read and written once per k block.
  A tile of A may therefore be a little larger than L1. 768 of float32 are 2 to 4 % faster than 384,
  on one thread and on two.
* columns of a packed block of B (k block x columns): more columns give more reuse of a tile of A
  and of the pages of its rows. The block may take a third of L2. The rest is for A, C and other
  data of the core. If a quarter of a core's share of L3 is more, the block may take that instead.
  L3 must then deliver B as fast as it is used. The block may take three quarters of L2 if A should
  be read or copied less often. A comes from a far L3 once per block. It is 2 to 5 % faster with
  twice the columns.
* parts of rows and columns, for threads: the most equal ones, and columns before rows, as each
  thread then packs its own part of B. Rows are preferred if they are many, L3 is far, and B is one
  block. Then one thread reads each part of A, instead of all threads.

The order of additions depends on the k block alone. The k block depends on k and the machine, never
on threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fl_jit.kernels import cpu

#: Maximum bytes of a row of A in a k block: more is not faster.
_DEEPEST = 3072
#: Relative cost of shared operands: a barrier while B is packed, or reads of A by several threads.
_SHARED = 0.02


def k_block(k: int, rows: int, itemsize: int) -> int:
    """Steps of k in a block: parts as equal as possible, of even length."""
    most = min(cpu.host().l1 * 4 // 3 // rows, _DEEPEST) // itemsize
    parts = max(-(-k // max(most, 64)), 1)
    return max(-(-k // parts) + 1 & ~1, 2)


def column_block(k: int, itemsize: int, wide: bool = False, from_l3: bool = True) -> int:
    """Maximum columns of a block of B. A ``wide`` block leaves little of L2. Without ``from_l3``
    the block does not exceed L2."""
    l2 = cpu.host().l2
    of_l2 = l2 * 3 // 4 if wide else l2 // 3
    of_l3 = min(cpu.host().l3 // 4, 4 * l2) if from_l3 else 0
    return max(max(of_l2, of_l3) // (max(k, 1) * itemsize), 1)


def prefetched_columns(k: int, itemsize: int) -> int:
    """Columns of a block of B that is prefetched while the previous one is multiplied. L2 holds
    both, even if rows map to half of its sets."""
    return max(cpu.host().l2 // 8 // (k * itemsize), 1)


class Parts(NamedTuple):
    """Number of parts of rows and columns."""

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
    """The grid of a GEMM: blocks of at most ``most_panels`` panels of columns, partitioned so that
    all threads finish as early as possible. ``tail`` is the width of the last panel, as a fraction
    of a panel. A ``tall`` GEMM of one block is divided by rows first."""
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
