"""Packing policy of GEMM operands: read in place or packed, by cache behavior."""

from __future__ import annotations

from fl_jit.kernels import cpu
from fl_jit.kernels.cpu import LINE
from fl_jit.kernels.llvm import prefetch_policy
from fl_jit.kernels.llvm.gemm.gemm_problem import GemmProblem
from fl_jit.kernels.llvm.tile import Cut

#: Products of at most this many rows read B once, if rows of B have at least this many bytes.
#: Products of at most ``_ALWAYS_STREAMED_ROWS`` rows do so in any case. They read few rows of B at
#: a time from end to end, as streams that the hardware prefetcher follows. This is 1.2 to 2.5 times
#: as fast as packing, or as panels of B in place.
_STREAMED_ROWS, _STREAMED_BYTES, _ALWAYS_STREAMED_ROWS = 16, 2048, 2
#: Steps of k, which are rows of B, at a time.
STREAMED_DEPTH = 8
#: Minimum steps of k of a column-major A for conflict misses in L1 and L2, if its stride is a
#: multiple of this many bytes.
_MANY_STEPS, _STEPS_CONFLICT = 128, 1024
#: Minimum rows and columns for which tiles of such an A are always copied. The stride is then half
#: a page or more, which is more pages than the TLB covers.
_MANY_PLACES = 512
#: Minimum columns of B for which a tile is copied that uses less than half of each cache line it
#: reads.
_MANY_COLUMNS = 256
#: Rows of B with a stride that is a multiple of this many bytes map to one set of L1.
_PAGE = 4096
#: Minimum rows of a product in which packing of B is not most of the work.
_MANY_TO_PACK_FOR = 256
#: Maximum rows of a product whose B is as large as L2, for B to be read in place.
_FEW_ROWS = 512


def is_by_columns(task: GemmProblem) -> bool:
    """Whether columns of A are contiguous and its rows are not."""
    return task.x.transposed.is_by_rows and not task.x.is_by_rows


def has_conflict_misses(task: GemmProblem) -> bool:
    """Whether a column-major A does not stay in L1 from panel to panel, and the next cache is slow.

    Each tile reads a cache line or two per step of k. These lines map to few sets of L1 and L2, or
    they fill a third of L1 and are many pages. Then a tile is copied, with as many elements of each
    line as possible. That is 1.2 to 1.9 times as fast with strides of 3072 to 16384 bytes, and 1.05
    to 1.2 times with others. A near L3 that does not feed the FMA units is as slow with these
    lines, of which tiles of 16 registers use less than half. The copy is 1.05 to 1.35 times as fast
    with 16 registers, and 1.03 to 1.1 times with 32.
    """
    if task.pairs or not is_by_columns(task) or cpu.host().l3_feeds_fma:
        return False
    if cpu.host().l3:
        return task.n >= _MANY_COLUMNS and task.k >= _MANY_STEPS
    fights = task.k >= _MANY_STEPS and task.x.col_stride % _STEPS_CONFLICT == 0
    fills = min(task.m, task.n) >= _MANY_PLACES and task.k * LINE > cpu.host().l1 // 3
    return fights or fills


def has_wide_blocks(task: GemmProblem) -> bool:
    """Whether blocks of B have as many columns as possible. One copy of a tile of A, and one
    transfer from L3, then serves many columns. Products of few rows pack B most of the time, which
    also needs L2."""
    return has_conflict_misses(task) or (
        task.m >= _MANY_TO_PACK_FOR and not cpu.host().l3_feeds_fma
    )


def reads_in_place(task: GemmProblem, rows: Cut, width: int) -> bool:
    """Whether B is read in place.

    It is if it is read once, is as dense as when packed, or is in cache for the few rows of A. Rows
    of B that map to one set of L1, and few of L2, stay in neither, and L3 may not feed the FMA
    units. Packing them was 1.2 to 1.4 times as fast for 64 rows.
    """
    if rows.parts <= 1 or task.y.row_stride <= width or is_streamed(task) or prefetches_b(task):
        return True
    nbytes = task.k * task.y.row_stride
    if task.y.row_stride % _PAGE == 0 and nbytes >= cpu.host().l2 and not cpu.host().l3_feeds_fma:
        return False
    return task.m * nbytes <= _FEW_ROWS * cpu.host().l2


def is_streamed(task: GemmProblem) -> bool:
    """Whether B is read few rows at a time, from end to end."""
    return task.m <= (_STREAMED_ROWS if _has_long_rows(task) else _ALWAYS_STREAMED_ROWS)


def prefetches_b(task: GemmProblem) -> bool:
    """Whether B is read in place in small blocks, each prefetched line by line during the previous
    one."""
    if task.m <= _STREAMED_ROWS or task.packed is not None or task.pairs:
        return False
    has_long_rows = task.y.is_by_rows and _has_long_rows(task)
    b_bytes = task.k * task.y.row_stride
    return has_long_rows and prefetch_policy.gemm_prefetches_b(cpu.host(), task.m, b_bytes)


def _has_long_rows(task: GemmProblem) -> bool:
    return task.n * task.y.dtype.itemsize >= _STREAMED_BYTES
