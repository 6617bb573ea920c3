"""Choice of the micro-kernels of a depthwise convolution.

There is one for each ``Block`` of adjacent pixels of a line. As machine code (``microkernel.py``):

    void block(ptr args, ptr source, ptr panels, ptr target,
               i64 planes, i64 rows, i64 columns, i64 groups, i64 lines)

``args`` has the distances of lines, pixels and places of the kernel. Planes, rows and columns of
the kernel are those inside the image.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llvmlite import ir

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.llvm import FOLDER
from fl_jit.kernels.llvm.depthwise import microkernel
from fl_jit.kernels.llvm.depthwise.groups import Groups
from fl_jit.kernels.llvm.depthwise.microkernel import Windows
from fl_tensor.dtypes import DType

#: Maximum pixels of a block.
_PIXELS = 14
#: Maximum columns of a kernel for which there is code for the windows of a block; minimum pixels of
#: a block for another vector to be computed together.
_COLUMNS, _ENOUGH = 7, 7
#: Cost of a pixel besides its vectors, in vectors: several contiguous vectors are read in longer
#: runs of memory.
_PIXEL = 0.5


class Block(NamedTuple):
    """The parameters of a micro-kernel. ``vectors`` are computed together, and the last one may be
    ``masked``. ``windows``: the window of each pixel in a row of the kernel, for code that is
    specialized for it."""

    groups: Groups
    pixels: int
    vectors: int
    masked: bool
    windows: Windows | None = None

    @property
    def name(self) -> str:
        """Name of the function."""
        windows = hashlib.sha256(repr(self.windows).encode()).hexdigest()[:16]
        size = f"{self.pixels}x{self.vectors}{'_masked' * self.masked}"
        return f"block_{self.groups.source}_{self.groups.target}_{size}_{windows}"


def is_known(groups: Groups, columns: int) -> bool:
    """Whether there is code that is specialized for the windows of pixels, of at most ``columns``
    columns."""
    return groups == (1, 1) and columns <= _COLUMNS


def best(
    groups: Groups, sizes: Sequence[int], dtype: DType, machine: Target, columns: int
) -> Block:
    """The largest block for these numbers of groups. Registers hold the accumulators and the data
    that is reused, weights or pixels. A row of the kernel has at most ``columns`` columns."""
    held, turns = groups.held(machine.lanes(dtype.itemsize)), groups.target
    has = machine.registers - (not machine.has_fma)
    known = is_known(groups, columns)

    def needed(pixels: int, vectors: int) -> int:
        if known:
            return vectors * (pixels + columns) + 1
        again = min(pixels, turns) + 2 if turns > 1 else vectors
        return vectors * pixels * turns + again

    def most(vectors: int) -> int:
        fits = (p for p in range(1, _PIXELS + 1) if needed(p, vectors) <= has)
        return max(fits, default=1)

    def cost(vectors: int) -> float:
        steps = sum(-(-size // (held * vectors)) for size in sizes)
        return steps * (vectors + _PIXEL)

    several = [v for v in (2, 3, 4) if turns == 1 and most(v) >= _ENOUGH]
    vectors = min((1, *several), key=cost)
    masked = any(size % (held * vectors) for size in sizes)
    return Block(groups, most(vectors), vectors, masked)


def addresses(dtype: DType, blocks: Iterable[Block]) -> dict[Block, int]:
    """Address of the code of each block. Those that are not compiled yet are compiled together."""
    machine, wanted = target.host(), {each.name: each for each in blocks}
    found = compile.addresses(
        {name: f"{each} {dtype} {compile.sources(FOLDER)}" for name, each in wanted.items()},
        lambda names: assembly(dtype, [wanted[name] for name in names], machine),
        machine,
        compile.Effort.TIDY,
    )
    return {each: found[name] for name, each in wanted.items()}


def assembly(dtype: DType, blocks: Sequence[Block], machine: Target) -> str:
    """A module in LLVM IR with a function for each block."""
    module = ir.Module("blocks")
    module.triple = target.triple()
    for each in blocks:
        function = ir.Function(module, microkernel.SIGNATURE, each.name)
        if each.windows is None:
            microkernel.AnyWindows(function, each, machine, dtype)
        else:
            microkernel.KnownWindows(function, each, each.windows, machine, dtype)
    return str(module)
