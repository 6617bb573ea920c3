"""Micro-kernel of depthwise convolutions: adjacent pixels of some rows of the result.

    for some vectors of channels of the source, for line:
      for plane, row of the kernel that the pixels see:

        KnownWindows: columns of each pixel are known   AnyWindows: all pixels see the same columns
        --------------------------------------          -----------------------------------
        w = panels[plane, row]    of all columns        for column:
        for place of the source that is seen:             for turn:      1 if channels do not mix
          x = source[place]       once                      w = panels[plane, row, column, turn]
          for pixel u and column that meet there:           for u in pixels:
            acc[u] += x * w[column]                           x = source[u + column]
                                                              acc[turn, u] += x * w

      target[u] = acc[u]                                lanes of a group are combined

Accumulators and weights stay in registers. ``KnownWindows`` reads each source element once per row,
and has the padding in its code. There are as many turns as a group has channels in the target
(``groups.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from llvmlite import ir

from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64, pointer
from fl_jit.kernels.llvm.depthwise.groups import gathered
from fl_jit.kernels.llvm.depthwise.kernel_args import FIELDS
from fl_jit.kernels.llvm.loop_nest import Emitter
from fl_tensor.dtypes import DType

if TYPE_CHECKING:
    from fl_jit.kernels.llvm.depthwise.block import Block

SIGNATURE = ir.FunctionType(ir.VoidType(), [pointer] * 4 + [i64] * 5)
#: Address operands of an instruction reach a, a + p, a + 2p and a + 3p.
_REACH = 4
#: Accumulators of a pixel: of every vector by turns.
_Accumulators: TypeAlias = list[list[IR]]


#: The windows of adjacent pixels in a row of the kernel: pairs of a place of the source and a
#: column. Places are counted from the first one that any of the pixels could see.
Windows: TypeAlias = tuple[tuple[tuple[int, int], ...], ...]


class _Microkernel(Emitter):
    # The function without the code for a row of the kernel.

    #: Names of the fields with the distance of adjacent pixels in the source and in the target.
    apart: ClassVar[tuple[str, str]]

    def __init__(self, function: IR, block: Block, machine: Target, dtype: DType) -> None:
        super().__init__(function, machine, dtype)
        b = self.b
        arguments, source, panels, to, *self.counts, count, self.lines = function.args
        self.args = FIELDS.fields(self.b, arguments)
        self.groups, self.pixels, self.vectors = block[:3]
        self.operands = source, panels, to
        #: Multiples of argument fields that the code uses.
        self._multiples: dict[tuple[str, int], IR] = {}
        self.held = self.groups.held(self.of.lanes)
        with self.loop(i64(0), count, self.held * self.vectors) as group:
            self._vectors(group, b.sub(count, group) if block.masked else None)
        b.ret_void()

    def _row(self, source: IR, panels: IR, accumulators: list[_Accumulators]) -> None:
        raise NotImplementedError

    def _seen(self) -> Sequence[int]:
        # Places of the source that the pixels see.
        raise NotImplementedError

    def _vectors(self, group: IR, left: IR | None) -> None:
        # Groups from ``group`` on; ``left`` of them remain.
        b, groups = self.b, self.groups
        sides = groups.source, groups.source, groups.target
        source, panels, to = (
            self.at(base, b.mul(group, i64(channels * self.itemsize)))
            for base, channels in zip(self.operands, sides, strict=True)
        )
        numbers, results = range(self.vectors), range(groups.results(self.of.lanes))
        #: Masks of vectors of the source; below, those of the corresponding vectors of the target.
        self.masks = [self._mask(left, v, groups.source, 0) for v in numbers]
        masks = [[self._mask(left, v, groups.target, i) for i in results] for v in numbers]
        with self.loop(i64(0), self.lines) as line:
            here = self.at(source, b.mul(line, self.args["source_line"]))
            self._prefetch_line(here)
            accumulators = self._accumulators(here, panels)
            there = self.at(to, b.mul(line, self.args["target_line"]))
            self._put(accumulators, self.opaque(there), masks)

    def _prefetch_line(self, source: IR) -> None:
        # Prefetches the last row of the next vectors' windows. The hardware prefetcher does not, as
        # pixels are far apart. The data is used after all lines of the current vectors.
        b, args = self.b, self.args
        rows = b.sub(self.counts[1], i64(1))
        last = self.at(source, b.mul(rows, args["source_kernel_row"]))
        for place in self._seen()[-self.pixels :]:
            there = self._place(last, place, self.apart[0])
            for v in range(self.vectors, 2 * self.vectors):
                self.of.prefetch(self._vector(there, v, self.groups.source))

    def _put(self, accumulators: list[_Accumulators], to: IR, masks: list[list[IR | None]]) -> None:
        for u, of_pixel in enumerate(accumulators):
            pixel = self._place(to, u, self.apart[1])
            for v, by_turns in enumerate(of_pixel):
                for i, vector in enumerate(gathered(self.of, self.groups, by_turns)):
                    there = self._vector(pixel, v, self.groups.target, i)
                    self.of.store(vector, there, masks[v][i])

    def _mask(self, left: IR | None, vector: int, channels: int, result: int) -> IR | None:
        # Mask of the lanes that groups have in a vector, or in a later vector of its results.
        before = vector * self.held * channels + result * self.of.lanes
        if left is not None:
            return self.of.first(self.b.sub(self.b.mul(left, i64(channels)), i64(before)))
        count = self.held * channels - result * self.of.lanes
        return self.of.first(i64(count)) if count < self.of.lanes else None

    def _accumulators(self, source: IR, panels: IR) -> list[_Accumulators]:
        b, kind = self.b, self.of.of(self.element)
        turns, numbers = range(self.groups.target), range(self.vectors)
        accumulators = [
            [[self.variable(kind) for _ in turns] for _ in numbers] for _ in range(self.pixels)
        ]
        for total in itertools.chain(*itertools.chain(*accumulators)):
            b.store(self.of.constant(self.element, 0), total)
        with self.loop(i64(0), self.counts[0]) as plane:
            planes = self._step(source, panels, plane, "kernel_plane")
            with self.loop(i64(0), self.counts[1]) as row:
                self._row(*self._step(*planes, row, "kernel_row"), accumulators)
        return [
            [[b.load(t, typ=kind) for t in row] for row in of_pixel] for of_pixel in accumulators
        ]

    def _step(self, source: IR, panels: IR, number: IR, name: str) -> tuple[IR, IR]:
        b, args = self.b, self.args
        return (
            self.at(source, b.mul(number, args[f"source_{name}"])),
            self.at(panels, b.mul(number, args[f"panels_{name}"])),
        )

    def _place(self, first: IR, number: int, name: str) -> IR:
        # The address ``number`` times the distance ``name`` after the first one.
        for count in (number // _REACH * _REACH, number % _REACH):
            first = self.at(first, self._multiple(name, count)) if count else first
        return first

    def _multiple(self, name: str, count: int) -> IR:
        distance = self.args[name]
        if (name, count) not in self._multiples:
            with self.b.goto_entry_block():
                self._multiples[name, count] = self.b.mul(distance, i64(count))
        return self._multiples[name, count]

    def _load(self, place: IR, number: int) -> IR:
        # One of the vectors that are computed together.
        there = self._vector(place, number, self.groups.source)
        return self.of.load(self.element, there, self.masks[number])

    def _vector(self, place: IR, number: int, channels: int, result: int = 0) -> IR:
        # Address of its groups, of ``channels`` channels each, or of a later vector of its results.
        distance = number * self.held * channels * self.itemsize + result * self.wide
        return self.at(place, distance) if distance else place


class KnownWindows(_Microkernel):
    """Code for specific windows of channels that do not mix. The number of columns is not used."""

    apart = "source_place", "target_place"

    def __init__(
        self, function: IR, block: Block, windows: Windows, machine: Target, dtype: DType
    ) -> None:
        #: (pixel, column) pairs by place of the source.
        self.met: dict[int, list[tuple[int, int]]] = {}
        for u, pairs in enumerate(windows):
            for place, column in pairs:
                self.met.setdefault(place, []).append((u, column))
        super().__init__(function, block, machine, dtype)

    def _seen(self) -> Sequence[int]:
        return sorted(self.met)

    def _row(self, source: IR, panels: IR, accumulators: list[_Accumulators]) -> None:
        b, numbers, kind = self.b, range(self.vectors), self.of.of(self.element)
        columns = sorted({column for pairs in self.met.values() for _, column in pairs})
        weights = {}
        for column in columns:
            there = self._place(panels, column, "panels_column")
            weights[column] = [self._load(there, v) for v in numbers]
        totals = [[b.load(total, typ=kind) for (total,) in of_pixel] for of_pixel in accumulators]
        for place in self._seen():
            there = self._place(source, place, "source_place")
            for v in numbers:
                found = self._load(there, v)
                for u, column in self.met[place]:
                    totals[u][v] = self.of.fma(found, weights[column][v], totals[u][v])
        for of_pixel, found in zip(accumulators, totals, strict=True):
            for (total,), vector in zip(of_pixel, found, strict=True):
                b.store(vector, total)


class AnyWindows(_Microkernel):
    """Code for any kernel, and for small groups."""

    apart = "source_pixel", "target_pixel"

    def _seen(self) -> Sequence[int]:
        return range(self.pixels)

    def _row(self, source: IR, panels: IR, accumulators: list[_Accumulators]) -> None:
        with self.loop(i64(0), self.counts[2]) as column:
            self._add(*self._step(source, panels, column, "kernel_column"), accumulators)

    def _add(self, source: IR, panels: IR, accumulators: list[_Accumulators]) -> None:
        # Accumulates a place of the kernel for all pixels. The fewer of weights and pixels stay in
        # registers.
        turns, numbers = range(self.groups.target), range(self.vectors)
        if len(turns) < self.pixels:
            weights = [[self._weights(panels, v, turn) for turn in turns] for v in numbers]
            for u, v in itertools.product(range(self.pixels), numbers):
                found = self._load(self._place(source, u, "source_pixel"), v)
                for turn in turns:
                    self._multiply(found, weights[v][turn], accumulators[u][v][turn])
            return
        for v in numbers:
            places = [self._place(source, u, "source_pixel") for u in range(self.pixels)]
            pixels = [self._load(place, v) for place in places]
            for turn in turns:
                row = self._weights(panels, v, turn)
                for found, of_pixel in zip(pixels, accumulators, strict=True):
                    self._multiply(found, row, of_pixel[v][turn])

    def _weights(self, panels: IR, number: int, turn: int) -> IR:
        row = self.at(panels, self.b.mul(self.args["packed_inner"], i64(turn))) if turn else panels
        return self._load(row, number)

    def _multiply(self, x: IR, y: IR, total: IR) -> None:
        self.b.store(self.of.fma(x, y, self.b.load(total, typ=x.type)), total)
