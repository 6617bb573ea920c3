"""Reorders between strided layouts and prepacked layouts of matrix operands.

This module packs and unpacks operand B of a GEMM. Weights of convolutions are in
``conv/panels.py``.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from fl_jit.kernels.descriptors import Reorder
from fl_jit.kernels.layout import Layout, Packed, Placement
from fl_jit.kernels.library import Kernel, UnsupportedError
from fl_jit.kernels.llvm.conv import panels
from fl_jit.kernels.llvm.gemm import gemm_problem, packing
from fl_jit.kernels.llvm.loop_nest import computed
from fl_tensor.dtypes import bfloat16, float32

_PACK = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(packing.PACK.args))
_UNPACK = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(packing.UNPACK.args))


def prepare(descriptor: Reorder) -> Kernel:
    """A kernel between a strided layout and a layout that kernels of this library chose. Raises
    UnsupportedError for other layouts."""
    x, out = descriptor.x, descriptor.out
    opaque = [each.opaque for each in (x, out) if isinstance(each, Packed)]
    if any(isinstance(each, panels.PrepackedLayout) for each in opaque):
        return panels.reorder(descriptor)
    if isinstance(x, Layout) and isinstance(out, Packed):
        return _Reorder(descriptor, x, out, packs=True)
    if isinstance(x, Packed) and isinstance(out, Layout):
        return _Reorder(descriptor, out, x, packs=False)
    raise UnsupportedError(f"{x!r} as {out!r}")


class _Reorder:
    def __init__(self, descriptor: Reorder, plain: Layout, packed: Packed, packs: bool) -> None:
        if plain.strides is None or plain.shape != packed.shape:
            raise UnsupportedError(f"{plain} as {packed!r}")
        if packed != gemm_problem.packed_layout(packed.dtype, plain.shape):
            raise UnsupportedError(f"{packed!r} is no factor of a product")
        pairs = packed.dtype is bfloat16
        if packed.dtype is not (bfloat16 if pairs and packs else computed(plain.dtype)):
            raise UnsupportedError(f"{plain} as {packed!r}")
        self.operands: tuple[Placement, ...] = (descriptor.x, descriptor.out)
        self.about = "pack" if packs else "unpack"
        # Calls, and the indices of the two arguments that are relative to the operands' addresses.
        if packs:
            item = plain.dtype.itemsize
            row_stride, column_stride = plain.strides[-2:]
            kind, dtype = (
                packing.kind_of(row_stride * item, column_stride * item, plain.dtype),
                plain.dtype,
            )
            if pairs and plain.dtype is bfloat16 and kind != "single":
                kind, dtype = ("pairs", dtype) if kind == "straight" else ("transposed", float32)
            elif pairs:
                raise UnsupportedError(f"{plain} as pairs: neither rows nor columns are contiguous")
            self._function = _PACK(packing.pack(kind, dtype))
            self._source, self._to = 0, 7
            self._calls = [
                (at, *strides, rows, columns, width, 0, place)
                for at, place, strides, rows, columns, width, _ in _blocks(plain, packed)
            ]
        else:
            self._function = _UNPACK(packing.unpack(plain.dtype))
            self._source, self._to = 0, 4
            self._calls = [
                (place, pitch, rows, columns, at, *strides, 0)
                for at, place, strides, rows, columns, _, pitch in _panels(plain, packed)
            ]

    def __call__(self, *addresses: int) -> None:
        """Reorder the operand at the first address into the operand at the second."""
        source, to = addresses
        for call in self._calls:
            given = list(call)
            given[self._source] += source
            given[self._to] += to
            self._function(*given)


class _Part(NamedTuple):
    """A part of the matrices.

    at       its offset in the strided operand, in bytes
    place    its offset in the packed operand, in bytes
    strides  its strides in the strided operand
    rows, columns  its size
    width    columns of a panel
    pitch    bytes from row to row of its (last) panel
    """

    at: int
    place: int
    strides: tuple[int, int]
    rows: int
    columns: int
    width: int
    pitch: int


def _blocks(plain: Layout, packed: Packed) -> Iterator[_Part]:
    """Blocks of k, each with all columns."""
    assert plain.strides is not None
    *batch, k, n = plain.shape
    _, depth, width = packed.opaque
    item, wide = plain.dtype.itemsize, max(packed.dtype.itemsize, 4)
    *steps, row_stride, column_stride = (stride * item for stride in plain.strides)
    if packed.dtype is bfloat16:
        k, row_stride = k // 2, 2 * row_stride
    row = packed.nbytes // max(math.prod(batch) * k, 1)  # bytes, with padding
    if 0 in plain.shape:
        return
    for number, place in enumerate(itertools.product(*map(range, batch))):
        at = sum(i * step for i, step in zip(place, steps, strict=True))
        for k0 in range(0, k, depth):
            rows = min(depth, k - k0)
            start = (number * k + k0) * row
            yield _Part(
                at + k0 * row_stride,
                start,
                (row_stride, column_stride),
                rows,
                n,
                width,
                row % (width * wide),
            )


def _panels(plain: Layout, packed: Packed) -> Iterator[_Part]:
    """The panels of these blocks."""
    wide = max(packed.dtype.itemsize, 4)
    for block in _blocks(plain, packed):
        for first in range(0, block.columns, block.width):
            columns = min(block.width, block.columns - first)
            whole = block.width * wide
            yield block._replace(
                at=block.at + first * block.strides[1],
                place=block.place + first * block.rows * wide,
                columns=columns,
                pitch=whole if columns == block.width else block.pitch or whole,
            )
