"""The micro-kernel of gradients of depthwise weights: a vector of channels at a block of places of
the kernel, all of whose sums stay in registers.

    for row, for pixel:
      for turn:                                           1 where channels do not mix
        g = gradient[row, pixel, turn]                    a vector, of lanes as ``groups.py`` says
        for i in 0 .. rows of the block, j in 0 .. columns of the block:
            sum[i, j, turn] += g * x[row + i, pixel + j]
    sums[i, j, turn] = sum[i, j, turn], or sums[i, j, turn] += sum[i, j, turn]

As machine code, with distances in bytes:

    void taps(ptr x, i64 x_tap_row, i64 x_tap, i64 x_row, i64 x_pixel,
              ptr gradient, i64 gradient_row, i64 gradient_pixel, i64 rows, i64 pixels,
              ptr sums, i64 sums_tap_row, i64 sums_tap, i64 sums_turn, i64 groups, i64 add)

x and sums have whole vectors, the gradient has the channels of so many ``groups``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llvmlite import ir

from fl_tensor.backends.providers.generated import FOLDER
from fl_tensor.backends.providers.generated.depthwise import copies
from fl_tensor.backends.providers.generated.depthwise.groups import Groups, picked
from fl_tensor.backends.providers.generated.nest import Emitter
from fl_tensor.backends.providers.generated.tile import registers
from fl_tensor.codegen import compile, target
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.vectors import IR, i64, pointer
from fl_tensor.dtypes import DType

SIGNATURE = ir.FunctionType(
    ir.VoidType(),
    [pointer, *[i64] * 4, pointer, *[i64] * 4, pointer, *[i64] * 5],
)


def most(groups: Groups, machine: Target) -> int:
    """Places of a block at most: sums have registers, and the gradient, and a product; with several
    turns also x, which is then used again."""
    if groups.target == 1:
        return registers(machine) - 4
    return max((registers(machine) - 2) // (groups.target + 1), 1)


class Taps(NamedTuple):
    """A block of so many places of the kernel."""

    groups: Groups
    rows: int
    columns: int

    @property
    def name(self) -> str:
        """Of the function."""
        return f"taps_{self.groups.source}_{self.groups.target}_{self.rows}x{self.columns}"


def addresses(dtype: DType, given: DType, blocks: Iterable[Taps]) -> dict[str, int]:
    """Where the code of each begins, by its name, and that of ``copies.NAME`` for an image of
    ``given``; those that nobody asked for before are compiled together."""
    machine, wanted = target.host(), {each.name: each for each in blocks}
    return compile.addresses(
        {
            name: f"{name} {dtype} {given} {compile.sources(FOLDER)}"
            for name in (*wanted, copies.NAME)
        },
        lambda names: assembly(dtype, given, [wanted.get(name) for name in names], machine),
        machine,
        compile.Effort.TIDY,
    )


def assembly(dtype: DType, given: DType, blocks: Iterable[Taps | None], machine: Target) -> str:
    """A module in LLVM IR with a function for each; None is ``copies.NAME``."""
    module = ir.Module("taps")
    module.triple = target.triple()
    for block in blocks:
        if block is None:
            copies.CopyPlane(module, machine, given)
        else:
            _Taps(ir.Function(module, SIGNATURE, block.name), block, machine, dtype)
    return str(module)


class _Taps(Emitter):
    def __init__(self, function: IR, block: Taps, machine: Target, dtype: DType) -> None:
        super().__init__(function, machine, dtype)
        groups, rows, columns = block
        b, kind, turns = self.b, self.of.of(self.element), range(groups.target)
        self.groups = groups
        x, x_tap_row, x_tap, x_row, x_pixel = function.args[:5]
        gradient, gradient_row, gradient_pixel, height, width, sums, *pitches = function.args[5:]
        *pitches, count, add = pitches
        channels = b.mul(count, i64(groups.target))
        results = range(groups.results(self.of.lanes))
        masks = [self.of.first(b.sub(channels, i64(self.of.lanes * v))) for v in results]
        places = list(itertools.product(range(rows), range(columns)))
        totals = {(*place, turn): self.variable(kind) for place in places for turn in turns}
        for total in totals.values():
            b.store(self.of.constant(self.element, 0), total)
        tap_rows = [b.mul(x_tap_row, i64(i)) for i in range(rows)]
        taps = [b.mul(x_tap, i64(j)) for j in range(columns)]
        with self.loop(i64(0), height) as row:
            line = self.at(x, b.mul(row, x_row))
            lines = [self.at(line, tap_row) for tap_row in tap_rows]
            source = self.at(gradient, b.mul(row, gradient_row))
            with self.loop(i64(0), width) as pixel:
                factors = self._factors(self.at(source, b.mul(pixel, gradient_pixel)), masks)
                here = b.mul(pixel, x_pixel)
                starts = [self.at(each, here) for each in lines]
                found = {
                    (i, j): self.of.load(self.element, self.at(starts[i], taps[j]))
                    for i, j in places
                }
                for turn, factor in enumerate(factors):
                    for i, j in places:
                        total = b.load(totals[i, j, turn], typ=kind)
                        b.store(self.of.fma(found[i, j], factor, total), totals[i, j, turn])
        adds = b.icmp_signed("!=", add, i64(0))
        pairs = [
            (self.at(sums, self.sum(*zip(map(i64, index), pitches, strict=True))), total)
            for index, total in totals.items()
        ]
        with b.if_else(adds) as (adding, setting):
            with adding:
                for place, total in pairs:
                    before = self.of.load(self.element, place)
                    self.of.store(b.fadd(before, b.load(total, typ=kind)), place)
            with setting:
                for place, total in pairs:
                    self.of.store(b.load(total, typ=kind), place)
        b.ret_void()

    def _factors(self, place: IR, masks: Sequence[IR]) -> list[IR]:
        # What every lane is multiplied by, by turns.
        vectors = []
        for v, mask in enumerate(masks):
            there = self.at(place, v * self.wide)
            vectors.append(self.of.load(self.element, there, mask))
            self.of.prefetch(self.at(there, len(masks) * self.wide))  # the next vector's
        turns = range(self.groups.target)
        return [picked(self.of, vectors, self.groups.spread(self.of.lanes, turn)) for turn in turns]
