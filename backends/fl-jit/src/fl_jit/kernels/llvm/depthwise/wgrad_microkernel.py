"""Micro-kernel of the wgrad of depthwise convolutions.

It processes a vector of channels at a block of places of the kernel, with all accumulators in
registers.

    for row:
      for some adjacent pixels u:                         fewer where the line ends
        for turn:                                         1 where channels do not mix
          g[u] = gradient[row, u, turn]                   vectors, with lanes as in ``groups.py``
        for i in rows of the block that are in the image:
          for place of x that the pixels see:
            v = x[row + i, place]                         once
            for u, column j that meet there, turn:
              acc[i, j, turn] += g[u, turn] * v
              prefetch the next vector of channels there; no hardware prefetcher would
    result[i, j, turn] = acc[i, j, turn], or result[i, j, turn] += acc[i, j, turn]

As machine code, with distances in bytes:

    void wgrad(ptr x, i64 x_kernel_row, i64 x_row, i64 x_place, i64 top, i64 extent,
              ptr gradient, i64 gradient_row, i64 gradient_pixel, i64 rows, i64 pixels,
              ptr acc, i64 acc_kernel_row, i64 acc_position, i64 acc_turn, i64 groups, i64 add)

``x`` is the address that the first pixel sees through the first place of the block; it may be
outside the image. Its row is ``top`` of the ``extent`` rows of the image. The rows of the block are
``spread`` rows apart, those of the gradient ``step`` rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from llvmlite import ir

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64, pointer
from fl_jit.kernels.llvm import FOLDER
from fl_jit.kernels.llvm.conv_wgrad.axes import Axis, Range
from fl_jit.kernels.llvm.depthwise.groups import Groups, picked
from fl_jit.kernels.llvm.loop_nest import Emitter
from fl_tensor.dtypes import DType

SIGNATURE = ir.FunctionType(
    ir.VoidType(), [pointer, *[i64] * 5, pointer, *[i64] * 4, pointer, *[i64] * 5]
)
#: Maximum pixels that are computed together, so that each place of x is read for several of them.
_TOGETHER = 4
#: (pixel, column of the kernel) pairs by place of x.
_Met: TypeAlias = dict[int, list[tuple[int, int]]]


def most(groups: Groups, machine: Target) -> int:
    """Maximum places of a block. The accumulators, the gradient and a product need registers; with
    several turns also x, which is then reused."""
    if groups.target == 1:
        return machine.registers - 4
    return max((machine.registers - 2) // (groups.target + 1), 1)


class Edges(NamedTuple):
    """Bounds of the kernel columns that the first and the last pixels of a line see, for pixels
    that do not see all columns."""

    first: tuple[Range, ...] = ()
    last: tuple[Range, ...] = ()

    @classmethod
    def of(cls, axis: Axis) -> Edges:
        """Edges of lines along an axis."""
        columns = [axis.read_through(position) for position in range(axis.kernel)]
        seen = []
        for pixel in range(axis.size):
            met = [position for position, (low, high) in enumerate(columns) if low <= pixel < high]
            seen.append((met[0], met[-1] + 1) if met else (0, 0))
        whole = [pixel for pixel, each in enumerate(seen) if each == (0, axis.kernel)]
        if not whole:
            return cls(tuple(seen))
        return cls(tuple(seen[: whole[0]]), tuple(seen[whole[-1] + 1 :]))

    @property
    def name(self) -> str:
        """Part of the name of a function."""
        return "__".join("_".join(f"{low}{high}" for low, high in side) for side in self)


class WgradMicrokernel(NamedTuple):
    """A block of places of the kernel, ``spreads`` apart along rows and columns, for pixels that
    are ``steps`` apart."""

    groups: Groups
    rows: int
    columns: int
    steps: tuple[int, int] = (1, 1)
    spreads: tuple[int, int] = (1, 1)
    edges: Edges = Edges()

    @property
    def name(self) -> str:
        """Name of the function."""
        steps = "_".join(map(str, (*self.steps, *self.spreads)))
        groups = f"{self.groups.source}_{self.groups.target}"
        return f"wgrad_{groups}_{self.rows}x{self.columns}_{steps}_{self.edges.name}"


def addresses(dtype: DType, blocks: Iterable[WgradMicrokernel]) -> dict[WgradMicrokernel, int]:
    """Address of the code of each block. Those that are not compiled yet are compiled together."""
    machine, wanted = target.host(), {each.name: each for each in blocks}
    found = compile.addresses(
        {name: f"{name} {dtype} {compile.sources(FOLDER)}" for name in wanted},
        lambda names: assembly(dtype, [wanted[name] for name in names], machine),
        machine,
        compile.Effort.TIDY,
    )
    return {each: found[name] for name, each in wanted.items()}


def assembly(dtype: DType, blocks: Iterable[WgradMicrokernel], machine: Target) -> str:
    """A module in LLVM IR with a function for each block."""
    module = ir.Module("wgrad")
    module.triple = target.triple()
    for block in blocks:
        _WgradFunction(ir.Function(module, SIGNATURE, block.name), block, machine, dtype)
    return str(module)


class _WgradFunction(Emitter):
    def __init__(
        self, function: IR, block: WgradMicrokernel, machine: Target, dtype: DType
    ) -> None:
        super().__init__(function, machine, dtype)
        self.block, b = block, self.b
        kind, lanes = self.of.of(self.element), self.of.lanes
        x, x_kernel_row, x_row, x_place, self.top, self.extent = function.args[:6]
        gradient, gradient_row, self.gradient_pixel, height, width, accumulators = function.args[
            6:12
        ]
        *pitches, groups, add = function.args[12:]
        self.x_mask = self.of.first(b.mul(groups, i64(block.groups.source)))
        features = b.mul(groups, i64(block.groups.target))
        results = range(block.groups.results(lanes))
        self.masks = [self.of.first(b.sub(features, i64(lanes * v))) for v in results]
        numbers = (block.rows, block.columns, block.groups.target)
        self.accumulators = {
            index: self.variable(kind) for index in itertools.product(*map(range, numbers))
        }
        for total in self.accumulators.values():
            b.store(self.of.constant(self.element, 0), total)
        step, spread = block.steps[1], block.spreads[1]
        places = max(self._together() - 1, len(block.edges.first), len(block.edges.last)) * step
        places += (block.columns - 1) * spread
        self.places = [b.mul(x_place, i64(place)) for place in range(places + 1)]
        self.kernel_rows = [b.mul(x_kernel_row, i64(i)) for i in range(block.rows)]
        pixel = b.mul(x_place, i64(step))
        with self.loop(i64(0), height) as row:
            line = self.at(x, b.mul(row, x_row))
            source = self.at(gradient, b.mul(row, gradient_row))
            self._line(row, (line, pixel), source, width)
        self._put(accumulators, pitches, add)
        b.ret_void()

    def _together(self) -> int:
        # Number of pixels whose gradients fit the registers besides the accumulators and a place of
        # x.
        left = self.machine.registers - len(self.accumulators) - 2
        if self.block.groups.target > 1:
            return 1
        return max(n for n in (1, 2, _TOGETHER) if n <= max(left, 1))

    def _line(self, row: IR, x: tuple[IR, IR], gradient: IR, width: IR) -> None:
        # The first pixels, those that see the whole kernel, several at a time, and the last ones.
        b, block = self.b, self.block
        inside = self._inside(row)
        first, last = (len(side) for side in block.edges)
        end = b.sub(width, i64(last))
        together = self._together()
        whole = b.sub(end, b.srem(b.sub(end, i64(first)), i64(together)))
        all_columns = (0, block.columns)
        self._pixels(i64(0), block.edges.first, inside, x, gradient)
        parts = [(i64(first), whole, together)] + [(whole, end, 1)] * (together > 1)
        for low, high, step in parts:
            with self.loop(low, high, step) as pixel:
                self._pixels(pixel, (all_columns,) * step, inside, x, gradient)
        self._pixels(end, block.edges.last, inside, x, gradient)

    def _inside(self, row: IR) -> list[IR]:
        # Whether each row of the block is inside the image.
        b, (step, _), (spread, _) = self.b, self.block.steps, self.block.spreads
        top = b.add(self.top, b.mul(row, i64(step)))
        return [
            b.icmp_unsigned("<", b.add(top, i64(i * spread)), self.extent)
            for i in range(self.block.rows)
        ]

    def _pixels(
        self, pixel: IR, seen: Sequence[Range], inside: Sequence[IR], x: tuple[IR, IR], gradient: IR
    ) -> None:
        # Adjacent pixels, with the column bounds of each.
        b, (_, step), (_, spread) = self.b, self.block.steps, self.block.spreads
        met: _Met = {}
        for u, columns in enumerate(seen):
            for j in range(*columns):
                met.setdefault(u * step + j * spread, []).append((u, j))
        if not met:
            return
        pitch = self.gradient_pixel
        first = self.at(gradient, b.mul(pixel, pitch))
        others = [self.at(first, b.mul(pitch, i64(u))) for u in range(1, len(seen))]
        factors = [self._factors(place) for place in (first, *others)]
        here = self.at(x[0], b.mul(pixel, x[1]))
        for i, kernel_row in enumerate(self.kernel_rows):
            with self.when(inside[i]):
                self._row(i, self.at(here, kernel_row) if i else here, met, factors)

    def _row(self, i: int, line: IR, met: _Met, factors: list[list[IR]]) -> None:
        # Accumulates a line into the accumulators of a row of the block.
        b, turns = self.b, range(self.block.groups.target)
        kind = self.of.of(self.element)
        columns = sorted({j for pairs in met.values() for _, j in pairs})
        variables = {(j, turn): self.accumulators[i, j, turn] for j in columns for turn in turns}
        totals = {index: b.load(total, typ=kind) for index, total in variables.items()}
        places = sorted(met)
        new = places[-len(factors) :] if i == self.block.rows - 1 else []
        for place in places:
            there = self.at(line, self.places[place]) if place else line
            found = self.of.load(self.element, there, self.x_mask)
            if place in new:
                self.of.prefetch(self.at(there, self.wide))
            for (u, j), turn in itertools.product(met[place], turns):
                totals[j, turn] = self.of.fma(found, factors[u][turn], totals[j, turn])
        for index, total in totals.items():
            b.store(total, variables[index])

    def _factors(self, place: IR) -> list[IR]:
        # The multiplier of every lane, by turn.
        vectors = []
        for v, mask in enumerate(self.masks):
            there = self.at(place, v * self.wide)
            vectors.append(self.of.load(self.element, there, mask))
            self.of.prefetch(self.at(there, len(self.masks) * self.wide))
        turns = range(self.block.groups.target)
        spread = self.block.groups.spread
        return [picked(self.of, vectors, spread(self.of.lanes, turn)) for turn in turns]

    def _put(self, accumulators: IR, pitches: Sequence[IR], add: IR) -> None:
        b, adds = self.b, self.b.icmp_signed("!=", add, i64(0))
        pairs = [
            (self.at(accumulators, self.sum(*zip(map(i64, index), pitches, strict=True))), total)
            for index, total in self.accumulators.items()
        ]
        kind = self.of.of(self.element)
        with b.if_else(adds) as (adding, setting):
            with adding:
                for place, total in pairs:
                    before = self.of.load(self.element, place)
                    self.of.store(b.fadd(before, b.load(total, typ=kind)), place)
            with setting:
                for place, total in pairs:
                    self.of.store(b.load(total, typ=kind), place)
