"""Micro-kernels of a sum over windows: tables of their addresses by number of rows."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.arg_struct import array
from fl_jit.kernels.llvm import microkernel_registry
from fl_jit.kernels.llvm.conv.implicit_gemm import Panels
from fl_jit.kernels.llvm.conv.tiling import Tiling
from fl_jit.kernels.llvm.microkernel import MicroKernel
from fl_jit.kernels.llvm.tile import Tile, balanced
from fl_tensor.dtypes import DType


def tables(
    dtype: DType, features: int, panels: Panels, rows: Set[int], narrow: bool, prefetch: bool
) -> tuple[Any, Any]:
    """The tables for whole panels and for the last panel: addresses of micro-kernels by number of
    rows. Numbers of rows that do not occur have 0."""
    lanes = target.host().lanes(dtype.itemsize)
    last = features - (panels.number - 1) * panels.width
    full = MicroKernel(dtype, Tile(1, panels.width // lanes), narrow=narrow, prefetch=prefetch)
    tail = full._replace(tile=Tile(1, panels.tail // lanes), masked=last < panels.tail)
    if last == panels.width:
        tail = full
    if panels.number == 1:
        full = tail
    by_rows = [
        {n: kernel._replace(tile=Tile(n, kernel.tile.vectors)) for n in rows}
        for kernel in (full, tail)
    ]
    found = microkernel_registry.addresses([kernel for each in by_rows for kernel in each.values()])
    places = range(panels.most_rows + 1)
    of_full, of_tail = (
        array(found[each[n]] if n in rows else 0 for n in places) for each in by_rows
    )
    return of_full, of_tail


def rows(cut: Tiling) -> set[int]:
    """The numbers of rows of tiles, and of parts of tiles at the ends of lines."""
    x = cut.axes[2]
    inside = cut.inside
    seen = [] if cut.dense else [x.seen(t) for t in range(len(x.kernel))]
    found = set()
    for start in range(0, x.places, cut.segment):
        parts = balanced(min(cut.segment, x.places - start), cut.most)
        found |= {parts.size + more for more in (0, 1) if not more or parts.longer}
        if inside[0] <= start and start + cut.segment <= inside[1]:
            continue
        end = start
        for number in range(parts.parts):
            low, end = end, end + parts.size + ((number + 1) % parts.parts < parts.longer)
            if low < inside[0] or end > inside[1]:
                found |= {min(end, last) - max(low, first) for first, last in seen}
    return {count for count in found if count > 0}
