"""Partition of an iteration space into chunks, by sizes alone and not by the number of threads.

A chunk is ``grain`` rows of one tile of the last axis. Chunks are large enough to amortize the cost
of a thread, and small enough for load balance. If chunks have partial results, their number is
limited.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fl_jit.kernels.codegen.arg_layout import ArgLayout
from fl_jit.kernels.codegen.cascade import BELOW, sums_over_rows
from fl_jit.kernels.codegen.emit_finish import PIECE
from fl_jit.kernels.codegen.instructions import EXPENSIVE
from fl_jit.kernels.codegen.program import Program
from fl_jit.kernels.codegen.schedule import Schedule
from fl_jit.kernels.codegen.transpose import ROWS

#: Approximate elements of a chunk.
CHUNK = 16384
#: Tile of a row where an operand is strided. So many of its cache lines remain in cache for the
#: next row, whose elements are in the same lines.
JUMPS = 256
#: Tile of a row for one column reduction, whose accumulators remain in cache. Several column
#: reductions share half of it, because their operands occupy cache, too.
COLUMNS = 4096
#: Shorter rows take about as long as a row of so many elements.
NARROW = 64
#: Maximum elements of all chunks' partial results.
PARTIALS = 1 << 20


class Grid(NamedTuple):
    """The fields of ``arg_layout.GRID`` and ``arg_layout.REST``, memory in bytes, and the work.

    The unit of work is about a nanosecond.
    """

    region: int
    worker_bytes: int
    chunks: int
    row_chunks: int
    grain: int
    tile: int
    tiles: int
    rows: int
    row_length: int
    pieces: int
    partial_bytes: int
    work: float


def cut(program: Program, plan: Schedule, sizes: Sequence[int]) -> Grid:
    """The grid of ``program`` on an iteration space of these sizes."""
    rows = math.prod(sizes[: program.outer])
    length = math.prod(sizes[program.outer :])
    columns = sum(program.instructions[i].parameter == "column" for i in plan.late_reductions)
    late = len(plan.late_reductions)
    totals = late - columns
    # Rows are not tiled if a row has several passes or row outputs, or has several axes.
    whole = program.row_axes > 1 or len(plan.passes) > 1 or plan.row_outputs
    scatters = any(output.at is not None for output in program.outputs)
    if whole:
        tile = length
    elif scatters:
        tile = _share(length)
    elif any(axes[-1] == "s" for axes in ArgLayout(program).operand_axes):
        tile = JUMPS
    elif columns > 1:
        tile = COLUMNS // (2 * columns)
    else:
        tile = COLUMNS if columns else CHUNK
    if program.row_axes > 1:
        tile = sizes[-1]
    tile = max(min(tile, sizes[-1]), 1)
    tiles = -(-sizes[-1] // tile) if program.row_axes == 1 else 1
    grain = max(CHUNK // max(length if tiles == 1 else tile, NARROW), 1)
    if columns:
        # Tiles are distributed, too: there are about 64 chunks for any width of rows. Each has a
        # row of partial results that is read again, so these chunks are larger than others.
        most = max(min(64 // max(tiles, 1), PARTIALS // max(columns * length, 1)), 1)
        grain = max(4 * grain, -(-rows // most))
    row_chunks = -(-rows // grain)
    if scatters:
        grain = max(rows, 1)  # serial: two rows may add to the same place
    tiles = tiles if length else 0
    chunks = row_chunks * tiles
    span = length if tiles <= 1 else tile
    regions = len(plan.saved) + sum((step + 1) // 2 for _, _, step in plan.draws)
    regions += ROWS * len(ArgLayout(program).transposed)
    sums = sums_over_rows(program, plan)
    regions += BELOW * sum(program.instructions[i].parameter == "column" for i in sums)
    region = (span + 64) * 8
    return Grid(
        region=region,
        worker_bytes=-(-regions * region // 64) * 64,
        chunks=chunks,
        row_chunks=row_chunks if chunks else 0,
        grain=grain,
        tile=tile,
        tiles=tiles,
        rows=rows,
        row_length=length,
        pieces=max(-(-sizes[-1] // PIECE), 1) if plan.late_outputs else 0,
        partial_bytes=(columns * row_chunks * length + totals * chunks + 64) * 8 if late else 0,
        work=rows * length * cost(program, plan),
    )


def _share(length: int) -> int:
    # A sixteenth of a row, in whole cache lines.
    return -(-length // (16 * 64)) * 64


def cost(program: Program, plan: Schedule) -> float:
    """Approximate nanoseconds per element."""
    made = program.instructions
    total = 0.15 * len(plan.draws) * 10
    for each in plan.passes:
        total += sum(0.4 if made[i].op in EXPENSIVE else 0.05 for i in each.compute)
        total += 0.05 * (len(each.reductions) + len(each.outputs) + len(each.reload))
    return total
