"""The micro-kernel of depthwise convolutions: some neighbouring pixels of some rows of the result.

    for some vectors of channels of the source, for line:
      for plane, row of the kernel that the pixels see:

        Known: which columns each pixel sees            Any: all pixels see the same columns
        --------------------------------------          -----------------------------------
        w = panels[plane, row]    of all columns        for column:
        for place of the source that is seen:             for turn:      1 if channels do not mix
          x = source[place]       once                      w = panels[plane, row, column, turn]
          for pixel u and column that meet there:           for u in pixels:
            sums[u] += x * w[column]                          x = source[u + column]
                                                              sums[turn, u] += x * w

      target[u] = sums[u]                               lanes of a group are brought together

Sums and weights stay in registers. ``Known`` reads a number of the source once per row, and knows
where padding is; there are as many turns as a group has channels in the target (``groups.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from llvmlite import ir

from fl_tensor.backends.providers.generated.depthwise.groups import gathered
from fl_tensor.backends.providers.generated.depthwise.words import WORDS
from fl_tensor.backends.providers.generated.nest import Emitter
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.vectors import IR, i64, pointer
from fl_tensor.dtypes import DType

if TYPE_CHECKING:
    from fl_tensor.backends.providers.generated.depthwise.block import Block

SIGNATURE = ir.FunctionType(ir.VoidType(), [pointer] * 4 + [i64] * 5)
#: Of an address a processor reaches a, a + p, a + 2p and a + 3p itself.
_REACH = 4
#: Sums of a pixel: of every vector by turns.
_Sums: TypeAlias = list[list[IR]]


class Windows(NamedTuple):
    """Of a row of the kernel, each of some neighbouring pixels sees the columns ``seen``, the first
    and the last one + 1: pixel u sees place ``u * step + column * spread`` of the source through
    a column."""

    step: int
    spread: int
    seen: tuple[tuple[int, int], ...]

    @property
    def name(self) -> str:
        """In the name of a function."""
        columns = "_".join(f"{low}{high}" for low, high in self.seen)
        return f"{self.step}_{self.spread}_{columns}"


class _Pixels(Emitter):
    # The function but for what a row of the kernel adds.

    def __init__(
        self,
        function: IR,
        block: Block,
        machine: Target,
        dtype: DType,
        pitch: str,
        step: int = 1,
    ) -> None:
        super().__init__(function, machine, dtype)
        b = self.b
        words, source, panels, to, *self.counts, count, self.lines = function.args
        self.words = self.named(words, WORDS)
        self.groups, self.pixels = block.groups, block.pixels
        self.operands = source, panels, to
        #: By which word places of the source are apart, and how many pixels are; multiples of words
        #: that are needed.
        self.pitch, self.step = pitch, step
        self._multiples: dict[tuple[str, int], IR] = {}
        self.held = self.groups.held(self.of.lanes)
        step = self.held * block.vectors
        whole = b.sub(count, b.srem(count, i64(step))) if block.tail else count
        with self.loop(i64(0), whole, step) as group:
            self._vectors(group, block.vectors, None)
        if block.tail:
            with self.loop(whole, count, self.held) as group:
                self._vectors(group, 1, self.minimum(b.sub(count, group), i64(self.held)))
        b.ret_void()

    def _row(self, source: IR, panels: IR, sums: list[_Sums], mask: IR | None) -> None:
        raise NotImplementedError

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
            self._ask(here, vectors)
            sums = self._sums(here, panels, vectors, mask)
            there = self.at(to, b.mul(line, self.words["target_line"]))
            self._put(sums, self.opaque(there), masks)

    def _ask(self, source: IR, vectors: int) -> None:
        # For what the next vectors see of the last row: nothing else would, as pixels are far
        # apart, and it is needed when all lines of these are done.
        b, words = self.b, self.words
        rows = b.sub(self.counts[1], i64(1))
        last = self.at(source, b.mul(rows, words["source_row_tap"]))
        apart = self.held * self.groups.source * self.itemsize
        for u, v in itertools.product(range(self.pixels), range(vectors)):
            place = self._place(last, u * self.step, self.pitch)
            self.of.prefetch(self.at(place, (vectors + v) * apart))

    def _put(self, sums: list[_Sums], to: IR, masks: Sequence[IR | None]) -> None:
        apart = self.held * self.groups.target * self.itemsize
        for u, of_pixel in enumerate(sums):
            pixel = self._place(to, u, "target_pixel")
            for v, by_turns in enumerate(of_pixel):
                for i, vector in enumerate(gathered(self.of, self.groups, by_turns)):
                    self.of.store(vector, self.at(pixel, v * apart + i * self.wide), masks[i])

    def _mask(self, left: IR | None, channels: int, before: int = 0) -> IR | None:
        # Of the lanes that so many groups have, behind those in vectors before.
        if left is not None:
            return self.of.first(self.b.sub(self.b.mul(left, i64(channels)), i64(before)))
        count = self.held * channels - before
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
                self._row(*self._step(*planes, row, "row_tap"), sums, mask)
        return [[[b.load(t, typ=kind) for t in row] for row in of_pixel] for of_pixel in sums]

    def _step(self, source: IR, panels: IR, number: IR, name: str) -> tuple[IR, IR]:
        b, words = self.b, self.words
        return (
            self.at(source, b.mul(number, words[f"source_{name}"])),
            self.at(panels, b.mul(number, words[f"panels_{name}"])),
        )

    def _place(self, first: IR, number: int, word: str) -> IR:
        # So many times the distance ``word`` behind the first one.
        for count in (number // _REACH * _REACH, number % _REACH):
            first = self.at(first, self._multiple(word, count)) if count else first
        return first

    def _multiple(self, word: str, count: int) -> IR:
        distance = self.words[word]
        if (word, count) not in self._multiples:
            with self.b.goto_entry_block():
                self._multiples[word, count] = self.b.mul(distance, i64(count))
        return self._multiples[word, count]

    def _load(self, place: IR, number: int, mask: IR | None) -> IR:
        # One of the vectors that are computed together.
        apart = self.held * self.groups.source * self.itemsize
        there = self.at(place, number * apart) if number else place
        return self.of.load(self.element, there, mask)

    def _multiply(self, x: IR, y: IR, total: IR) -> None:
        self.b.store(self.of.fma(x, y, self.b.load(total, typ=x.type)), total)


class Known(_Pixels):
    """Of channels that do not mix; the number of columns is not looked at."""

    def __init__(
        self, function: IR, block: Block, windows: Windows, machine: Target, dtype: DType
    ) -> None:
        self.windows = windows
        super().__init__(function, block, machine, dtype, "source_place", windows.step)

    def _row(self, source: IR, panels: IR, sums: list[_Sums], mask: IR | None) -> None:
        step, spread, seen = self.windows
        pairs = [(u, column) for u, some in enumerate(seen) for column in range(*some)]
        met: dict[int, list[tuple[int, int]]] = {}
        for u, column in pairs:
            met.setdefault(u * step + column * spread, []).append((u, column))
        numbers = range(len(sums[0]))
        weights = {
            column: [
                self._load(self._place(panels, column, "panels_tap"), v, mask) for v in numbers
            ]
            for column in sorted({column for _, column in pairs})
        }
        for place, here in sorted(met.items()):
            there = self._place(source, place, self.pitch)
            for v in numbers:
                found = self._load(there, v, mask)
                for u, column in here:
                    self._multiply(found, weights[column][v], sums[u][v][0])


class Any(_Pixels):
    """Of any kernel, and of small groups."""

    def __init__(self, function: IR, block: Block, machine: Target, dtype: DType) -> None:
        super().__init__(function, block, machine, dtype, "source_pixel")

    def _row(self, source: IR, panels: IR, sums: list[_Sums], mask: IR | None) -> None:
        with self.loop(i64(0), self.counts[2]) as column:
            self._add(*self._step(source, panels, column, "tap"), sums, mask)

    def _add(self, source: IR, panels: IR, sums: list[_Sums], mask: IR | None) -> None:
        # What a place of the kernel adds to the sums of all pixels. Of panels and pixels those that
        # are fewer wait in registers.
        turns, numbers = range(self.groups.target), range(len(sums[0]))
        if len(turns) < self.pixels:
            weights = [[self._weights(panels, v, turn, mask) for turn in turns] for v in numbers]
            for u, v in itertools.product(range(self.pixels), numbers):
                found = self._load(self._place(source, u, self.pitch), v, mask)
                for turn in turns:
                    self._multiply(found, weights[v][turn], sums[u][v][turn])
            return
        for v in numbers:
            places = [self._place(source, u, self.pitch) for u in range(self.pixels)]
            pixels = [self._load(place, v, mask) for place in places]
            for turn in turns:
                row = self._weights(panels, v, turn, mask)
                for found, of_pixel in zip(pixels, sums, strict=True):
                    self._multiply(found, row, of_pixel[v][turn])

    def _weights(self, panels: IR, number: int, turn: int, mask: IR | None) -> IR:
        row = self.at(panels, self.b.mul(self.words["packed_inner"], i64(turn))) if turn else panels
        return self._load(row, number, mask)
