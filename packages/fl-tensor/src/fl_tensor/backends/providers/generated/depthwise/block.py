"""The micro-kernel of depthwise convolutions: some neighbouring pixels of some rows of the result.

    for some vectors of channels of the source, for line:
      for plane, row, column of the kernel that the pixels see:
        for turn:                                         1 where channels do not mix
          w = panels[plane, row, column, turn]            vectors
          for u in pixels:
            sums[turn, u] += source[u + column] * w       stay in registers
      target[u] = sums[u]                                 lanes of a group are brought together

There are as many turns as a group has channels in the target (``groups.py``). As machine code, for
each ``Block``:

    void block(ptr words, ptr source, ptr panels, ptr target,
               i64 planes, i64 rows, i64 columns, i64 groups, i64 lines)

``words`` say how far apart lines, pixels and places are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from llvmlite import ir

from fl_tensor.backends.providers.generated import FOLDER
from fl_tensor.backends.providers.generated.depthwise.groups import Groups, gathered
from fl_tensor.backends.providers.generated.depthwise.words import WORDS
from fl_tensor.backends.providers.generated.nest import Emitter
from fl_tensor.backends.providers.generated.tile import registers
from fl_tensor.codegen import compile, target
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.vectors import IR, i64, pointer
from fl_tensor.dtypes import DType

SIGNATURE = ir.FunctionType(ir.VoidType(), [pointer] * 4 + [i64] * 5)
#: Pixels of a block at most, and vectors: 7, 14 and 28 divide the lines of most networks. Several
#: vectors side by side are read in longer stretches of memory.
_PIXELS, _VECTORS = 14, 4
#: Of an address a processor reaches a, a + p, a + 2p and a + 3p itself.
_REACH = 4


class Block(NamedTuple):
    """What there is code for: ``vectors`` are computed together, and with a ``tail`` also single
    ones, of which the last may have fewer lanes."""

    groups: Groups
    pixels: int
    vectors: int
    tail: bool

    @property
    def name(self) -> str:
        """Of the function."""
        tail = "_tail" * self.tail
        return f"block_{self.groups.source}_{self.groups.target}_{self.pixels}x{self.vectors}{tail}"


def best(groups: Groups, sizes: Sequence[int], dtype: DType, machine: Target) -> Block:
    """The largest block for these numbers of groups: sums have registers, and what is used again,
    weights or pixels."""
    held, turns = groups.held(machine.lanes(dtype.itemsize)), groups.target
    has = registers(machine) - (not machine.has_fma)
    vectors = min(-(-max(sizes) // held), _VECTORS if has > 16 else 2) if turns == 1 else 1
    vectors = 1 << vectors.bit_length() - 1

    def needed(pixels: int) -> int:
        again = min(pixels, turns) + 2 if turns > 1 else vectors
        return vectors * pixels * turns + again

    pixels = max((p for p in range(1, _PIXELS + 1) if needed(p) <= has), default=1)
    return Block(groups, pixels, vectors, any(size % (held * vectors) for size in sizes))


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
        _Block(ir.Function(module, SIGNATURE, each.name), each, machine, dtype)
    return str(module)


#: Sums of a pixel: of every vector by turns.
_Sums: TypeAlias = list[list[IR]]


class _Block(Emitter):
    def __init__(self, function: IR, block: Block, machine: Target, dtype: DType) -> None:
        super().__init__(function, machine, dtype)
        b = self.b
        words, source, panels, to, *self.counts, count, self.lines = function.args
        self.words = self.named(words, WORDS)
        self.groups, self.pixels, *_ = block
        self.operands = source, panels, to
        pitch = self.words["source_pixel"]
        self.within = [b.mul(pitch, i64(u)) for u in range(_REACH)]
        self.jumps = [b.mul(pitch, i64(u)) for u in range(0, self.pixels, _REACH)]
        held = self.groups.held(self.of.lanes)
        step = held * block.vectors
        whole = b.sub(count, b.srem(count, i64(step))) if block.tail else count
        with self.loop(i64(0), whole, step) as group:
            self._vectors(group, block.vectors, None)
        if block.tail:
            with self.loop(whole, count, held) as group:
                self._vectors(group, 1, self.minimum(b.sub(count, group), i64(held)))
        b.ret_void()

    def _vectors(self, group: IR, vectors: int, left: IR | None) -> None:
        # From a group on, of which but so many are left.
        b, groups, lanes = self.b, self.groups, self.of.lanes
        sides = groups.source, groups.source, groups.target
        source, panels, to = (
            self.at(base, b.mul(group, i64(channels * self.itemsize)))
            for base, channels in zip(self.operands, sides, strict=True)
        )
        mask = self._mask(left, groups.source)
        masks = [self._mask(left, groups.target, lanes * v) for v in range(groups.results(lanes))]
        with self.loop(i64(0), self.lines) as line:
            here = self.at(source, b.mul(line, self.words["source_line"]))
            sums = self._sums(here, panels, vectors, mask)
            there = self.at(to, b.mul(line, self.words["target_line"]))
            self._put(sums, self.opaque(there), masks)

    def _put(self, sums: list[_Sums], to: IR, masks: Sequence[IR | None]) -> None:
        apart = self.groups.held(self.of.lanes) * self.groups.target * self.itemsize
        for u, of_pixel in enumerate(sums):
            pixel = self.at(to, self.b.mul(self.words["target_pixel"], i64(u))) if u else to
            for v, by_turns in enumerate(of_pixel):
                for i, vector in enumerate(gathered(self.of, self.groups, by_turns)):
                    self.of.store(vector, self.at(pixel, v * apart + i * self.wide), masks[i])

    def _mask(self, left: IR | None, channels: int, before: int = 0) -> IR | None:
        # Of the lanes that so many groups have, behind those in vectors before.
        if left is not None:
            return self.of.first(self.b.sub(self.b.mul(left, i64(channels)), i64(before)))
        count = self.groups.held(self.of.lanes) * channels - before
        return self.of.first(i64(count)) if count < self.of.lanes else None

    def _sums(self, source: IR, panels: IR, vectors: int, mask: IR | None) -> list[_Sums]:
        # For each pixel.
        b, kind = self.b, self.of.of(self.element)
        turns, numbers = range(self.groups.target), range(vectors)
        sums = [[[self.variable(kind) for _ in turns] for _ in numbers] for _ in range(self.pixels)]
        for total in itertools.chain(*itertools.chain(*sums)):
            b.store(self.of.constant(self.element, 0), total)
        with self.loop(i64(0), self.counts[0]) as plane:
            planes = self._step(source, panels, plane, "plane_tap")
            with self.loop(i64(0), self.counts[1]) as row:
                rows = self._step(*planes, row, "row_tap")
                with self.loop(i64(0), self.counts[2]) as column:
                    self._add(*self._step(*rows, column, "tap"), sums, mask)
        return [[[b.load(t, typ=kind) for t in row] for row in of_pixel] for of_pixel in sums]

    def _step(self, source: IR, panels: IR, number: IR, name: str) -> tuple[IR, IR]:
        b, words = self.b, self.words
        return (
            self.at(source, b.mul(number, words[f"source_{name}"])),
            self.at(panels, b.mul(number, words[f"panels_{name}"])),
        )

    def _add(self, source: IR, panels: IR, sums: list[_Sums], mask: IR | None) -> None:
        # What a place of the kernel adds to the sums of all pixels. Of panels and pixels those that
        # are fewer wait in registers.
        turns, numbers = range(self.groups.target), range(len(sums[0]))
        if len(turns) < self.pixels:
            weights = [[self._weights(panels, v, turn, mask) for turn in turns] for v in numbers]
            for u, v in itertools.product(range(self.pixels), numbers):
                found = self._pixel(source, u, v, mask)
                for turn in turns:
                    self._multiply(found, weights[v][turn], sums[u][v][turn])
            return
        for v in numbers:
            pixels = [self._pixel(source, u, v, mask) for u in range(self.pixels)]
            for turn in turns:
                row = self._weights(panels, v, turn, mask)
                for found, of_pixel in zip(pixels, sums, strict=True):
                    self._multiply(found, row, of_pixel[v][turn])

    def _weights(self, panels: IR, number: int, turn: int, mask: IR | None) -> IR:
        row = self.at(panels, self.b.mul(self.words["packed_inner"], i64(turn))) if turn else panels
        return self._load(row, number, mask)

    def _pixel(self, source: IR, pixel: int, number: int, mask: IR | None) -> IR:
        near = self.at(source, self.jumps[pixel // _REACH]) if pixel >= _REACH else source
        place = self.at(near, self.within[pixel % _REACH]) if pixel % _REACH else near
        return self._load(place, number, mask)

    def _load(self, place: IR, number: int, mask: IR | None) -> IR:
        # One of the vectors that are computed together.
        apart = self.groups.held(self.of.lanes) * self.groups.source * self.itemsize
        there = self.at(place, number * apart) if number else place
        return self.of.load(self.element, there, mask)

    def _multiply(self, x: IR, y: IR, total: IR) -> None:
        self.b.store(self.of.fma(x, y, self.b.load(total, typ=x.type)), total)
