"""Where factors of a product are better read where they lie, and where they are copied: by how they
fall into the caches."""

from __future__ import annotations

from fl_jit.kernels.codegen import target
from fl_jit.kernels.llvm import caches, tile
from fl_jit.kernels.llvm.gemm.gemm_problem import GemmProblem
from fl_jit.kernels.llvm.microkernel import LINE
from fl_jit.kernels.llvm.tile import Cut

#: Products of so few rows read B once, if its rows have so many bytes, and those of still fewer
#: rows in any case: in few rows of it at a time, which are streams that the processor follows, from
#: one end to the other. 1.2 to 2.5 times as fast as packing, or as panels of B in place.
_STREAMED_ROWS, _STREAMED_BYTES, _ALWAYS_STREAMED_ROWS = 16, 2048, 2
#: Steps of k, which are rows of B, at a time.
STREAMED_DEPTH = 8
#: Products of so many rows at most take as long to read B from memory as to multiply it.
_ASKED_ROWS = 64
#: Rows of a block of B that is asked for while the one before is multiplied. All of them may fall
#: into a quarter of the places of L2, or less: with 192 it takes 1.02 to 1.15 times as long.
ASKED_DEPTH = 96
#: Steps of k of an A by columns from which on they fight for the places of L1 and L2, if they are a
#: multiple of so many bytes apart.
_MANY_STEPS, _STEPS_CONFLICT = 128, 1024
#: Rows and columns from which on tiles of such an A are copied in any case: the steps are then half
#: a page apart or more, which is more pages than a processor has at hand.
_MANY_PLACES = 512
#: Columns of B that are worth the copy of a tile that takes less than half of each line it reads.
_MANY_COLUMNS = 256
#: Rows of a B that are a multiple of so many bytes apart are in one place of L1.
_PAGE = 4096
#: How many rows a product has that does more than to pack B.
_MANY_TO_PACK_FOR = 256
#: How many rows a product may have whose B is as large as L2, for B to be read as it is.
_FEW_ROWS = 512


def is_by_columns(task: GemmProblem) -> bool:
    """Whether rows of A are side by side, and its steps of k are not."""
    return task.x.transposed.is_by_rows and not task.x.is_by_rows


def has_conflict_misses(task: GemmProblem) -> bool:
    """Whether the steps of an A by columns, a cache line or two of each tile, leave L1 from panel
    to panel, and what comes behind is far: as they fall into few places of L1 and L2, or fill a
    third of L1 and are many pages. Then a tile is copied, of as many of a line's elements as may
    be: 1.2 to 1.9 times as fast, with steps 3072 to 16384 bytes apart; 1.05 to 1.2, with others.
    A near L3 that does not feed tiles is as slow with these lines, of which tiles of 16 registers
    take less than half: 1.05 to 1.35 times as fast with those, 1.03 to 1.1 with 32 registers."""
    if task.pairs or not is_by_columns(task) or tile.l3_feeds_fma():
        return False
    if caches.private_l3_bytes():
        return task.n >= _MANY_COLUMNS and task.k >= _MANY_STEPS
    fights = task.k >= _MANY_STEPS and task.x.col_stride % _STEPS_CONFLICT == 0
    fills = min(task.m, task.n) >= _MANY_PLACES and task.k * LINE > caches.level(1) // 3
    return fights or fills


def has_wide_blocks(task: GemmProblem) -> bool:
    """Whether blocks of B have as many columns as may be: one copy of a tile of A is then for many,
    and one way from L3. Of few rows B is packed all the time, which wants L2, too."""
    return has_conflict_misses(task) or (task.m >= _MANY_TO_PACK_FOR and not tile.l3_feeds_fma())


def reads_in_place(task: GemmProblem, rows: Cut, width: int) -> bool:
    """Whether B is read where it is: where it is read once, or as dense as packed, or lies in cache
    for the few rows that there are. Rows of it that fall into one place of L1, and few of L2, stay
    in neither, and L3 may not feed tiles: to pack them was 1.2 to 1.4 times as fast for 64 rows."""
    if rows.parts <= 1 or task.y.row_stride <= width or is_streamed(task) or prefetches_b(task):
        return True
    nbytes = task.k * task.y.row_stride
    if task.y.row_stride % _PAGE == 0 and nbytes >= caches.level(2) and not tile.l3_feeds_fma():
        return False
    return task.m * nbytes <= _FEW_ROWS * caches.level(2)


def is_streamed(task: GemmProblem) -> bool:
    """Whether few rows of B are read at a time, from one end to the other."""
    return task.m <= (_STREAMED_ROWS if _has_long_rows(task) else _ALWAYS_STREAMED_ROWS)


def prefetches_b(task: GemmProblem) -> bool:
    """Whether a B in memory is read where it is, in small blocks, each of which tiles ask for line
    by line while they multiply the one before: it is more than caches hold, and rows are few. To
    pack it takes time in which nothing is multiplied: 1.05 to 1.5 times as long, for 24 to 64 rows.
    """
    is_far = task.k * task.y.row_stride >= target.STREAMED
    lies = task.y.is_by_rows and _has_long_rows(task)
    is_few = _STREAMED_ROWS < task.m <= _ASKED_ROWS and tile.registers(target.host()) >= 32
    return is_far and lies and is_few and task.packed is None and not task.pairs


def _has_long_rows(task: GemmProblem) -> bool:
    return task.n * task.y.dtype.itemsize >= _STREAMED_BYTES
