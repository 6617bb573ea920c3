"""Which micro-kernels a depthwise convolution calls: one for each ``Block`` of neighbouring pixels of
a line. As machine code (``pixels.py``):

    void block(ptr words, ptr source, ptr panels, ptr target,
               i64 planes, i64 rows, i64 columns, i64 groups, i64 lines)

``words`` say how far apart lines, pixels and places are; planes, rows and columns of the kernel are
those that meet the image.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llvmlite import ir

from fl_tensor.backends.providers.generated import FOLDER
from fl_tensor.backends.providers.generated.depthwise import pixels
from fl_tensor.backends.providers.generated.depthwise.groups import Groups
from fl_tensor.backends.providers.generated.depthwise.pixels import Windows
from fl_tensor.backends.providers.generated.tile import registers
from fl_tensor.codegen import compile, target
from fl_tensor.codegen.target import Target
from fl_tensor.dtypes import DType

#: Pixels of a block at most, and vectors: 7, 14 and 28 divide the lines of most networks. Several
#: vectors side by side are read in longer stretches of memory.
_PIXELS, _VECTORS = 14, 4
#: Places of a row of the kernel up to which there is code for each, and pixels from which on that
#: is done for two vectors at a time.
_PLACES, _ENOUGH = 7, 4


class Block(NamedTuple):
    """What there is code for: ``vectors`` are computed together, and with a ``tail`` also single
    ones, of which the last may have fewer lanes. ``windows``: what of a row of the kernel each
    pixel sees, if there is code for that alone."""

    groups: Groups
    pixels: int
    vectors: int
    tail: bool
    windows: Windows | None = None

    @property
    def name(self) -> str:
        """Of the function."""
        windows = f"_{self.windows.name}" if self.windows else ""
        tail = "_tail" * self.tail
        groups = f"{self.groups.source}_{self.groups.target}"
        return f"block_{groups}_{self.pixels}x{self.vectors}{tail}{windows}"


def is_known(groups: Groups, places: int) -> bool:
    """Whether there is code for the very windows of pixels, of at most so many places."""
    return groups == (1, 1) and places <= _PLACES


def best(
    groups: Groups, sizes: Sequence[int], dtype: DType, machine: Target, places: int
) -> Block:
    """The largest block for these numbers of groups: sums have registers, and what is used again,
    weights or pixels. Windows have at most so many places."""
    held, turns = groups.held(machine.lanes(dtype.itemsize)), groups.target
    has = registers(machine) - (not machine.has_fma)
    some = -(-max(sizes) // held)
    if is_known(groups, places):
        by_vectors = [(has - 1 - v * places) // v for v in (1, 2)]
        vectors = 2 if some > 1 and by_vectors[1] >= _ENOUGH else 1
        most = min(by_vectors[vectors - 1], _PIXELS)
        return Block(groups, most, vectors, _has_tail(sizes, held * vectors))
    vectors = min(some, _VECTORS if has > 16 else 2) if turns == 1 else 1
    vectors = 1 << vectors.bit_length() - 1

    def needed(pixels: int) -> int:
        again = min(pixels, turns) + 2 if turns > 1 else vectors
        return vectors * pixels * turns + again

    most = max((p for p in range(1, _PIXELS + 1) if needed(p) <= has), default=1)
    return Block(groups, most, vectors, _has_tail(sizes, held * vectors))


def _has_tail(sizes: Sequence[int], together: int) -> bool:
    return any(size % together for size in sizes)


def addresses(dtype: DType, blocks: Iterable[Block]) -> dict[Block, int]:
    """Where the code of each begins; those that nobody asked for before are compiled together."""
    machine, wanted = target.host(), {each.name: each for each in blocks}
    found = compile.addresses(
        {name: f"{each} {dtype} {compile.sources(FOLDER)}" for name, each in wanted.items()},
        lambda names: assembly(dtype, [wanted[name] for name in names], machine),
        machine,
        compile.Effort.TIDY,
    )
    return {each: found[name] for name, each in wanted.items()}


def assembly(dtype: DType, blocks: Sequence[Block], machine: Target) -> str:
    """A module in LLVM IR with a function for each."""
    module = ir.Module("blocks")
    module.triple = target.triple()
    for each in blocks:
        function = ir.Function(module, pixels.SIGNATURE, each.name)
        if each.windows:
            pixels.Known(function, each, each.windows, machine, dtype)
        else:
            pixels.Any(function, each, machine, dtype)
    return str(module)
