"""Prefetch of the next input tile of a wgrad, while the micro-kernels compute the current one.

The memory traffic overlaps with the computation. The data is in L2 when it is copied, or read.
"""

from __future__ import annotations

from fl_jit.kernels.codegen.vectors import IR, i64
from fl_jit.kernels.cpu import LINE
from fl_jit.kernels.llvm.conv_wgrad.kernel_args import InputTiles


class Prefetch(InputTiles):
    """A builder of a loop nest whose micro-kernels prefetch.

    In the order of their calls they prefetch the part of x that the next input tile reads, then
    that of the gradient, sequentially. Then they repeat this, at no cost.
    """

    #: The next address; the ranges (from, to) of x and the gradient; whether the second is
    #: prefetched.
    _prefetch_target: IR
    _ranges: list[tuple[IR, IR]]
    _second: IR

    def prefetch_tile(self, input_tile: IR, own: IR) -> None:
        """Begin to prefetch the data of the next input tile. Threads that share data would each
        prefetch all of it. Then a thread prefetches its ``own`` memory instead."""
        b, args = self.b, self.args
        self.locate(self.minimum(b.add(input_tile, i64(1)), b.sub(args["input_tiles"], i64(1))))
        splits = args["tile_splits"], args["panel_splits"]
        self._ranges = [
            tuple(b.select(b.icmp_signed("==", split, i64(1)), end, own) for end in ends)
            for split, ends in zip(splits, (self._of_x(), self._of_gradient()), strict=True)
        ]
        self._prefetch_target, self._second = self.variable(i64), self.variable(i64)
        b.store(self._ranges[0][0], self._prefetch_target)
        b.store(i64(0), self._second)

    def prefetch_line(self, lines: IR) -> IR:
        """The address at which the next call begins to prefetch ``lines`` cache lines."""
        b = self.b
        here, second = b.load(self._prefetch_target, typ=i64), b.load(self._second, typ=i64)
        is_second = b.icmp_signed("!=", second, i64(0))
        (first, first_end), (other, other_end) = self._ranges
        there = b.add(here, b.mul(lines, i64(LINE)))
        is_done = b.icmp_signed(">=", there, b.select(is_second, other_end, first_end))
        b.store(b.select(is_done, b.select(is_second, first, other), there), self._prefetch_target)
        b.store(b.xor(second, b.zext(is_done, i64)), self._second)
        return here

    def _of_x(self) -> tuple[IR, IR]:
        ends = []
        for axis in self.tile_axes():
            end = self.minimum(self.b.add(axis.first, axis.count), axis.extent)
            ends.append((self.maximum(axis.first, i64(0)), end))
        return self._between("x", ends)

    def _of_gradient(self) -> tuple[IR, IR]:
        ends = [self.b.add(*pair) for pair in zip(self.starts, self.extents, strict=True)]
        return self._between("gradient", list(zip(self.starts, ends, strict=True)))

    def _between(self, name: str, places: list[tuple[IR, IR]]) -> tuple[IR, IR]:
        # From the cache line of the first position to the end of the last one, of all groups.
        b, args = self.b, self.args
        pitches = [args[f"{name} {axis}"] for axis in range(len(places))]
        parts = list(zip(places, pitches, strict=True))
        begin = self.sum(args[name], *((first, pitch) for (first, _), pitch in parts))
        last = self.sum(args[name], *((b.sub(end, i64(1)), pitch) for (_, end), pitch in parts))
        return b.and_(begin, i64(-LINE)), b.add(last, pitches[-1])
