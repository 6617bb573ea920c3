"""Software prefetch: which loops prefetch, and how far. The only place that decides it.

Generators of loop nests and micro-kernels take the answers and emit the instructions. Hardware
prefetchers follow few streams of adjacent lines. Software prefetches pay where data is in pages
that they do not follow, and where a loop has time to spare.
"""

from __future__ import annotations

from fl_jit.kernels.cpu import LINE, CpuContext
from fl_jit.kernels.llvm.tile import Tile

# ---- micro-kernels -------------------------------------------------------------------------------

#: Prefetch distance of B in rows. A packed B needs 400 cycles, where a tile uses a row every 12 to
#: 14 cycles. From beyond L2 a row would come too late; from L2 it is no slower. Rows of a B in
#: place are in other pages, which no hardware prefetcher follows. Their distance is short, as those
#: after the last row are not needed. GEMMs with operands in L2 are 3 to 8 % faster.
MICROKERNEL_ROWS = {"packed": 32, "rows": 8}


def microkernel_prefetches_b(tile: Tile) -> bool:
    """Whether a micro-kernel prefetches rows of B, ``MICROKERNEL_ROWS`` ahead: only where loads are
    fewer than multiply-adds anyway, so that loads are not the bottleneck."""
    return tile.rows + 2 * tile.vectors <= tile.rows * tile.vectors


# ---- packing of GEMM operands --------------------------------------------------------------------

#: Rows that are packed together, and whose successors are prefetched into L2: few enough streams of
#: loads for the hardware prefetcher, and enough to write several cache lines at a time in each
#: panel.
PACKED_ROWS = 8
#: Prefetch distance in bytes along a column that is being transposed.
TRANSPOSED_BYTES = 128

# ---- GEMM ----------------------------------------------------------------------------------------

#: Maximum cache lines per prefetch burst. A processor has 16 to 48 outstanding misses, and the
#: loads of the micro-kernel would queue after them. Its hardware prefetcher follows the rows of A,
#: too: with bursts of 100 lines, GEMMs of 512 rows and more are 2 to 5 % slower than without.
_MOST_LINES = 32
#: GEMMs of at most this many rows take as long to read B from memory as to multiply it.
_MOST_ROWS = 64
#: Rows of a block of B that is prefetched while the previous one is multiplied. All of them may map
#: to a quarter of the sets of L2, or less: with 192 rows it takes 1.02 to 1.15 times as long.
B_BLOCK_ROWS = 96


def gemm_prefetches_a(cpu: CpuContext, a_bytes: int, tile_bytes: int, panels: int) -> bool:
    """Whether each of ``panels`` panels of B prefetches a share of the next tile of A.

    This holds if A is not in L1, there are enough panels, and L3 feeds the FMA units. Otherwise
    lines take so long to arrive that those of B, which are needed now, wait behind them: GEMMs are
    1 to 3 % faster without.
    """
    lines = tile_bytes // LINE
    return cpu.l3_feeds_fma and a_bytes > cpu.l1 and lines <= _MOST_LINES * panels


def gemm_prefetches_b(cpu: CpuContext, rows: int, b_bytes: int) -> bool:
    """Whether a B of long rows is read in place in blocks of ``B_BLOCK_ROWS`` rows, each prefetched
    line by line during the previous one.

    This holds for a B that is larger than the caches, and few rows of A. Packing takes time in
    which nothing is multiplied: 1.05 to 1.5 times as long, for 24 to 64 rows.
    """
    return b_bytes >= cpu.streaming_bytes and rows <= _MOST_ROWS and cpu.registers >= 32


#: The cache into which a skinny GEMM prefetches the columns of its next tile. Hardware prefetchers
#: stop at the ends of short columns: with 768 or 3,072 elements, a product takes 0.7 to 0.9 of the
#: time that it takes without. Into L1 the columns come too early, and displace those of now.
SKINNY_LEVEL = 2

# ---- convolutions --------------------------------------------------------------------------------

#: Bytes of a pixel up to which its copy prefetches the neighbors.
_MOST_COPIED_BYTES = 256


def conv_prefetches_pixels(cpu: CpuContext, is_contiguous: bool, source_bytes: int) -> bool:
    """Whether micro-kernels of a convolution prefetch the pixels behind those of their tile, a
    cache line with each step of k.

    They do if these are read next, are contiguous, and do not fit L2. A tile of few rows of few
    channels begins streams that hardware prefetchers have not detected yet. Pointwise convolutions
    were 1.02 to 1.5 times as fast.
    """
    return is_contiguous and source_bytes > cpu.l2


def wgrad_prefetches_tile(cpu: CpuContext, is_contiguous: bool, tile_bytes: int) -> bool:
    """Whether micro-kernels of a wgrad prefetch the next input tile into L2: its data is
    contiguous, and L2 has room for this one and the next."""
    return is_contiguous and 2 * tile_bytes <= cpu.l2


def copy_distance(has_neighbor: bool, nbytes: int) -> int:
    """Prefetch distance in bytes of a copy of ``nbytes`` of each pixel; 0: none. A copy prefetches
    its neighbors: the channels of the next small group. Nothing else does, as pixels are far
    apart."""
    return nbytes if has_neighbor and nbytes <= _MOST_COPIED_BYTES else 0
