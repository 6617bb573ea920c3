"""Register tile of a micro-kernel: its shape, by instruction set and problem size.

                 vectors of columns
               +------+------+
        row 0  | acc  | acc  |      rows x vectors accumulators; a step of k loads ``vectors``
        row 1  | acc  | acc  |      vectors of B, and one number of A per row, which it
          :    |  :   |  :   |      broadcasts: (rows + vectors) loads for rows * vectors
        row r  | acc  | acc  |      multiply-adds
               +------+------+

The method is that of K. Goto and R. van de Geijn, "Anatomy of high-performance matrix
multiplication" (2008), in the form of F. Van Zee and R. van de Geijn, "BLIS" (2015).

Accumulators, the vectors of B and the broadcast number must all fit the registers. Of 32 registers
a tile takes 14 x 2 + 2 + 1 = 31, of 16 registers 6 x 2 + 2 + 1 = 15 (6 x 16 float32 on AVX2). With
128-bit vectors a wider tile has fewer loads per multiply-add. The processors with 32 such registers
multiply by one lane of a register, so four numbers of A take one register: 6 x 4 + 4 + 2 = 30.
"""

from __future__ import annotations

from typing import NamedTuple

from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.cpu import CpuContext


class Tile(NamedTuple):
    """Rows, and vectors of columns."""

    rows: int
    vectors: int


def best(machine: Target) -> Tile:
    """The largest tile of good proportions that fits the registers."""
    if machine.registers < 32:
        return Tile(6, 2) if machine.has_fma else Tile(4, 2)
    return Tile(14, 2) if machine.vector_bits > 128 else Tile(6, 4)


#: Minimum vectors of columns for tiles of 3 vectors.
_MANY_VECTORS = 16
#: Minimum steps of k for which C is little of the work, and minimum rows for which packing of B is;
#: packing is faster in wider panels.
_DEEP, _MANY_ROWS = 128, 48


def of_product(
    cpu: CpuContext, rows: int, vectors: int, by_columns: bool = False, k: int = 0
) -> Tile:
    """The tile for a GEMM with so many rows and vectors of columns.

    Few, long rows are better for row-major operands. C is written, and an unpacked B read, in runs
    of several cache lines, of fewer pages: 6 x 4 + 4 + 1 = 29 registers, 8 x 3 + 3 + 1 = 28.

    For a column-major A (``by_columns``), 8 rows are half a cache line of float32. They are 1 to 3
    % faster than 6, unless 3 vectors do not divide the columns: panels would be unequal, also among
    threads.

    Where L3 is far, much of the time depends on whether B comes from L2. With many steps of ``k``,
    9 rows of 3 vectors, 27 + 3 + 1 = 31 registers, read a third less of B per multiply-add.
    """
    if cpu.registers < 32:
        return Tile(best(cpu.target).rows, min(vectors, 2))
    long = rows >= _MANY_ROWS and vectors >= _MANY_VECTORS and k >= _DEEP
    if long and not (by_columns or cpu.l3):
        return Tile(9, 3)
    if by_columns and rows >= 8 and vectors >= _MANY_VECTORS and vectors % 3 == 0:
        return Tile(8, 3)
    few = {1: 8, 2: 8, 7: 3, 8: 3}.get(rows, 2 if 8 < rows <= 14 else 4)
    vectors = min(vectors, few)
    return Tile({1: 14, 2: 14, 3: 8}.get(vectors, 6), vectors) if rows > 2 else Tile(rows, vectors)


def fits(tile: Tile, machine: Target) -> bool:
    """Whether accumulators, a row of B and a number of A all fit the registers."""
    others = 1 if machine.has_fma else 2  # without FMA the product needs a register
    return tile.rows * tile.vectors + tile.vectors + others <= machine.registers


class Cut(NamedTuple):
    """A length in ``parts``: the first ``longer`` have ``size + 1``, the others ``size``."""

    parts: int
    size: int
    longer: int


def balanced(length: int, most: int) -> Cut:
    """The smallest number of parts of at most ``most``, as equal as possible. 28 rows by at most 14
    are 14 + 14, and 30 are 10 + 10 + 10. With 14 + 14 + 2 the last part would waste a tile."""
    parts = max(-(-length // most), 1)
    return Cut(parts, *divmod(length, parts))
