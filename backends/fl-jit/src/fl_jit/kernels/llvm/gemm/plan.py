"""GEMM planning: partition and kernel arguments of ``gemm.py`` for a ``GemmProblem``."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from fl_jit.kernels import cpu
from fl_jit.kernels.codegen import target, threads
from fl_jit.kernels.codegen.arg_struct import address, array
from fl_jit.kernels.cpu import LINE
from fl_jit.kernels.llvm import microkernel_registry, prefetch_policy, tile
from fl_jit.kernels.llvm.epilogue import Prepared
from fl_jit.kernels.llvm.gemm import blocking, gemm, packing, packing_policy
from fl_jit.kernels.llvm.gemm.gemm_problem import LARGE, GemmProblem
from fl_jit.kernels.llvm.gemm.kernel_args import ARGUMENTS, BATCH_AXIS
from fl_jit.kernels.llvm.launcher import Division, Launcher
from fl_jit.kernels.llvm.loop_nest import computed
from fl_jit.kernels.llvm.microkernel import MicroKernel
from fl_jit.kernels.llvm.tile import Cut, Tile
from fl_tensor.dtypes import DType, bfloat16

_OPERANDS = "x", "y", "out"
#: Approximate floating-point operations of a thread per nanosecond, which determine the number of
#: threads of a GEMM.
SPEED = 60.0
#: Minimum rows of a tile for conflict misses in L1, if their stride is a multiple of ``_CONFLICT``
#: bytes.
_MANY_ROWS, _CONFLICT = 9, 2048


def planned(
    task: GemmProblem, accumulate: bool, epilogue: Prepared | None, tiles: Tile | None
) -> tuple[Launcher, str]:
    """The launcher of ``task``, and its description. ``tiles`` overrides the tile if given."""
    cut = _cut(task, accumulate, tiles)
    left, right = _left(task, cut), _right(task, cut)
    memory = _memory(task, cut, left, right)
    streams = not (accumulate or epilogue) and _streams(task, cut)
    batch = [
        BATCH_AXIS.block(size=size, **{name: getattr(task, name).batch[axis] for name in _OPERANDS})
        for axis, size in enumerate(task.batch)
    ]
    table = array(itertools.chain(*batch))
    fields = {
        "m": task.m, "k": task.k, "itemsize": cut.dtype.itemsize,
        "out_itemsize": 2 if cut.narrow else cut.dtype.itemsize,
        "vector_bytes": cut.lanes * cut.dtype.itemsize,
        "x_row": task.x.row_stride, "x_k": task.x.col_stride,
        "y_k": task.y.row_stride, "y_column": task.y.col_stride,
        "out_row": task.out.row_stride, "out_column": task.out.col_stride,
        "row_parts": cut.parts.rows, "tiles": cut.rows.parts, "tile_rows": cut.rows.size,
        "longer_tiles": cut.rows.longer,
        "column_parts": cut.parts.columns, "panels": cut.panels, "panel_columns": cut.width,
        "last_columns": cut.last, "last_padded": cut.padded, "k_block": cut.depth,
        "unpack": packing.unpack(task.out.dtype) if cut.in_scratch else 0,
        "prefetch_a": _prefetches_a(task, cut), "prefetch_b": right.prefetches,
        "accumulate": accumulate, "streams": streams,
        "batch_axes": len(task.batch), "batch_table": address(table),
    } | left.fields | right.fields | memory | _micros(task, cut, left, right, streams)  # fmt: skip
    places = math.prod(task.batch)
    items = places * cut.parts.rows * cut.parts.columns if task.m and task.n else 0
    packs = cut.panels * -(-task.k // cut.depth) if right.shared and items else 0

    def divide(workers: int) -> Division:
        workspace = memory["shared_bytes"] + workers * memory["worker_bytes"]
        return Division((packs, workers if items else 0), {}, workspace, stolen=items)

    work = 2.0 * places * task.m * task.n * max(task.k, 1) / SPEED
    runner = Launcher(
        gemm.code(), ARGUMENTS, fields, divide, work, epilogue, max(items, 1), table, gemm.PHASES
    )
    how = [right.how, "copy" if left.copies else "", f"{cut.tile.rows}x{cut.width}"]
    how += [f"{cut.parts.rows}x{cut.parts.columns}", f"k {cut.depth}"]
    how += ["pairs"] if task.pairs else []
    how += ["past caches"] if streams else []
    return runner, "gemm " + " ".join(filter(None, how))


class _Cut(NamedTuple):
    # The partition: tiles of rows, panels of columns, blocks of k, parts for threads.
    dtype: DType  # of the accumulators
    lanes: int
    tile: Tile
    rows: Cut
    width: int  # of a panel, in columns
    panels: int
    last: int  # columns of the last panel
    in_place: bool  # whether y is read in place
    depth: int  # of a block of k
    parts: blocking.Parts
    narrow: bool  # whether micro-kernels write bfloat16
    in_scratch: bool  # whether accumulators have scratch memory

    @property
    def padded(self) -> int:
        return -(-self.last // self.lanes) * self.lanes


def _cut(task: GemmProblem, accumulate: bool, tiles: Tile | None) -> _Cut:
    machine, dtype, y = target.host(), computed(task.out.dtype), task.y
    item, lanes = dtype.itemsize, machine.lanes(dtype.itemsize)
    shape = _tile(task, lanes, tiles)
    width = shape.vectors * lanes
    rows = tile.balanced(task.m, shape.rows)
    panels = max(-(-task.n // width), 1)
    last = task.n - (panels - 1) * width
    in_place = task.packed is None and y.is_by_rows and y.dtype is dtype
    in_place = in_place and packing_policy.reads_in_place(task, rows, width * item)
    depth = blocking.k_block(task.k, tile.of_product(cpu.host(), *LARGE, k=task.k).rows, item)
    if in_place and packing_policy.is_streamed(task):
        depth = min(depth, packing_policy.STREAMED_DEPTH)
    from_l3 = cpu.host().l3_feeds_fma or packing_policy.has_conflict_misses(task)
    wide = packing_policy.has_wide_blocks(task)
    block = blocking.column_block(min(task.k, depth), item, wide, from_l3)
    if in_place and packing_policy.prefetches_b(task):
        depth = min(depth, prefetch_policy.B_BLOCK_ROWS)
        block = blocking.prefetched_columns(depth, item)
    most = max(block // width, 1)
    counts = threads.limit() if threads.pool() else 1
    tail = last / width
    tall = task.m >= 2 * task.n and not cpu.host().l3
    parts = blocking.parts(rows.parts, panels, tail, most, math.prod(task.batch), counts, tall)
    narrow = _is_narrow(task, depth, accumulate)
    in_scratch = not (task.out.is_by_rows and (task.out.dtype is dtype or narrow))
    panel = shape, rows, width, panels, last
    return _Cut(dtype, lanes, *panel, in_place, depth, parts, narrow, in_scratch)


def _prefetches_a(task: GemmProblem, cut: _Cut) -> bool:
    row_bytes = min(task.k, cut.depth) * cut.dtype.itemsize
    a_bytes = task.m * task.k * cut.dtype.itemsize
    panels = -(-cut.panels // cut.parts.columns)
    tile_bytes = cut.rows.size * row_bytes
    return prefetch_policy.gemm_prefetches_a(cpu.host(), a_bytes, tile_bytes, panels)


def _is_narrow(task: GemmProblem, depth: int, accumulate: bool) -> bool:
    """Whether micro-kernels write a bfloat16 result: one call accumulates all of k."""
    once = task.k <= depth and not accumulate
    return task.pairs and task.out.dtype is bfloat16 and task.out.is_by_rows and once


def _tile(task: GemmProblem, lanes: int, tiles: Tile | None) -> Tile:
    machine, vectors = target.host(), max(-(-task.n // lanes), 1)
    if tiles is not None:
        return Tile(tiles.rows, min(tiles.vectors, vectors))
    if task.packed:
        return tile.of_product(cpu.host(), *LARGE, k=task.k)
    if packing_policy.prefetches_b(task):
        return Tile(8, 3)
    if packing_policy.has_conflict_misses(task) and task.m > tile.best(machine).rows:
        return Tile(tile.best(machine).rows, min(tile.best(machine).vectors, vectors))
    return tile.of_product(
        cpu.host(), max(task.m, 1), vectors, packing_policy.is_by_columns(task), task.k
    )


class _Left(NamedTuple):
    # Memory layout of the tile of A of a micro-kernel.
    layout: str
    fields: dict[str, int]

    @property
    def copies(self) -> bool:
        return self.fields["copy"] != 0


def _left(task: GemmProblem, cut: _Cut) -> _Left:
    """A is read in place, which is nearly always best, or copied tile by tile."""
    x, item = task.x, cut.dtype
    by_rows = x.is_by_rows
    kind = "straight" if by_rows or x.transposed.is_by_rows else "single"
    copies = kind == "single" or x.dtype is not item
    if by_rows:
        conflict = cut.rows.size >= _MANY_ROWS and task.k > 16 and x.row_stride % _CONFLICT == 0
        copies = copies or conflict
    elif task.mixes(x):
        kind, copies = "pairs", True
    elif packing_policy.has_conflict_misses(task):
        copies = True
    copy = packing.pack(kind, x.dtype) if copies else 0
    return _Left("rows" if by_rows else "columns", {"copy": copy, "copy_by_rows": by_rows})


class _Right(NamedTuple):
    # Source of B for the micro-kernels.
    how: str
    is_packed: bool
    fields: dict[str, int]
    prefetches: bool = False  # whether micro-kernels prefetch the next block

    @property
    def shared(self) -> bool:
        return self.fields["pack_shared"] != 0


def _right(task: GemmProblem, cut: _Cut) -> _Right:
    """B is prepacked, read in place, or packed: by each thread for itself, or cooperatively if all
    threads would pack the same."""
    y = task.y
    if task.packed or cut.in_place:
        packed, prefetches = (
            task.packed is not None,
            cut.in_place and packing_policy.prefetches_b(task),
        )
        how = "packed" if packed else "prefetched" if prefetches else ""
        return _Right(how, packed, {"y_packed": packed, "pack_shared": 0}, prefetches)
    kind = packing.kind_of(y.row_stride, y.col_stride, y.dtype)
    pack = packing.pack("pairs" if task.mixes(y) else kind, y.dtype)
    if cut.parts.rows > 1 and not any(y.batch):
        return _Right("pack together", True, {"y_packed": True, "pack_shared": pack})
    return _Right("pack", True, {"pack": pack, "pack_shared": 0})


def _memory(task: GemmProblem, cut: _Cut, left: _Left, right: _Right) -> dict[str, int]:
    """Scratch memory of a worker: a block of B, a tile of A, accumulators; and a B that is packed
    for all workers."""
    item, vector = cut.dtype.itemsize, cut.lanes * cut.dtype.itemsize
    tallest, depth = cut.rows.size + 1, min(task.k, cut.depth)
    columns = -(-cut.panels // cut.parts.columns) * cut.width
    steps, across = (tallest, depth) if left.fields["copy_by_rows"] else (depth, tallest)
    sizes = (
        depth * columns * item if right.fields.get("pack") else 0,
        steps * (_rounded(across * item, vector) + gemm.GAP) if left.copies else 0,
        -(-cut.rows.parts // cut.parts.rows) * tallest * columns * item if cut.in_scratch else 0,
    )
    _, tile_at, accumulators_at, worker = itertools.accumulate(map(_rounded, sizes), initial=0)
    padded = (cut.panels - 1) * cut.width + cut.padded
    shared = _rounded(task.k * padded * item) if right.shared else 0
    return {
        "worker_bytes": worker,
        "tile_offset": tile_at,
        "accumulators_offset": accumulators_at,
        "shared_bytes": shared,
    }


def _micros(
    task: GemmProblem, cut: _Cut, left: _Left, right: _Right, streams: bool
) -> dict[str, int]:
    """The micro-kernels of all tiles: longer and other ones, whole panels and the last one."""
    factors, b = bfloat16 if task.pairs else cut.dtype, "packed" if right.is_packed else "rows"
    like = MicroKernel(
        *(factors, cut.tile, left.layout, b),
        narrow=cut.narrow,
        prefetch=right.prefetches,
        streams=streams,
    )
    vectors = cut.padded // cut.lanes
    masked = cut.last % cut.lanes != 0 and not (cut.in_scratch and right.is_packed)
    wanted: dict[str, MicroKernel] = {}
    heights = {"longer": cut.rows.size + 1 if cut.rows.longer else 0, "other": cut.rows.size}
    for name, height in heights.items():
        if height:
            whole = like._replace(tile=Tile(height, cut.tile.vectors))
            end = like._replace(tile=Tile(height, vectors), masked=masked)
            if cut.panels > 1:
                wanted[f"micro_{name}_whole"] = whole
            wanted[f"micro_{name}_last"] = end
    found = microkernel_registry.addresses(wanted.values())
    return {name: found[kernel] for name, kernel in wanted.items()}


def _streams(task: GemmProblem, cut: _Cut) -> bool:
    """Whether the result is written by non-temporal stores.

    It must be larger than the caches and be written once. All its vectors must be whole cache lines
    that can be aligned to their size. With half lines, many rows at a time, it would take 1.3 to
    1.5 times as long. A far L3 accepts results sooner than memory does: ordinary stores are 3 to 5
    % faster there.
    """
    out = task.out
    nbytes = math.prod(task.batch) * task.m * task.n * out.dtype.itemsize
    large = nbytes >= cpu.host().streaming_bytes and cpu.host().l3 > 0
    in_lines = cut.lanes * cut.dtype.itemsize >= LINE
    at_once = task.k <= cut.depth and in_lines and not (cut.in_scratch or cut.narrow)
    steps = (out.row_stride, *out.batch)
    return large and at_once and not any(s % LINE for s in steps)


def _rounded(nbytes: int, to: int = 64) -> int:
    return -(-nbytes // to) * to
