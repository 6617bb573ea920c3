"""Input tiles of a wgrad: blocks of pixels, and padded copies of the positions of x that they
read."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from fl_jit.kernels.codegen.vectors import IR, i64
from fl_jit.kernels.llvm.conv_wgrad.kernel_args import AXES
from fl_jit.kernels.llvm.loop_nest import LoopNestBuilder, zero


class InputTiles(LoopNestBuilder):
    """A builder of a loop nest over input tiles. Its kernel arguments include
    ``kernel_args.axes``."""

    #: The first position of the gradient in the current input tile, along each axis, and the
    #: number.
    starts: list[IR]
    extents: list[IR]

    def split(self, number: IR, by: IR) -> tuple[IR, IR]:
        """``divmod``."""
        return self.b.sdiv(number, by), self.b.srem(number, by)

    def locate(self, input_tile: IR) -> None:
        """Set ``starts`` and ``extents`` of the input tile of this number."""
        b, words = self.b, self.words
        self.starts, self.extents = [], []
        for axis in reversed(range(AXES)):
            input_tile, block = self.split(input_tile, words[f"blocks {axis}"])
            step = words[f"step {axis}"]
            start = b.mul(block, step)
            self.starts.insert(0, start)
            self.extents.insert(0, self.minimum(step, b.sub(words[f"size {axis}"], start)))

    def copy_x(self, image: IR, to: IR, copy_row: Callable[[IR, IR, IR, IR, IR], None]) -> None:
        """Copy the positions of an image that the input tile reads.

        Calls ``copy_row(to, source, low, high, end)`` for each row. Positions ``low`` to ``high``
        are copied from ``source``, the others up to ``end`` are zero.
        """
        b, words = self.b, self.words
        seen, before = [], []
        for axis in range(AXES):
            stride = words[f"stride {axis}"]
            more = b.mul(b.sub(self.extents[axis], i64(1)), stride)
            seen.append(b.add(more, words[f"reach {axis}"]))
            before.append(b.sub(b.mul(self.starts[axis], stride), words[f"low {axis}"]))
        end = seen[3]
        left = self.minimum(self.maximum(b.neg(before[3]), i64(0)), end)
        right = self.maximum(self.minimum(b.sub(words["extent 3"], before[3]), end), left)
        with (
            self.loop(i64(0), seen[0]) as n,
            self.loop(i64(0), seen[1]) as depth,
            self.loop(i64(0), seen[2]) as row,
        ):
            places = list(enumerate((n, depth, row)))
            indices = [b.add(before[axis], i) for axis, i in places]
            inside = ir.Constant(ir.IntType(1), 1)
            for axis, index in enumerate(indices):
                valid = b.icmp_unsigned("<", index, words[f"extent {axis}"])
                inside = b.and_(inside, valid)
            source = self.sum(
                image,
                *((index, words[f"x {axis}"]) for axis, index in enumerate(indices)),
                (b.add(before[3], left), words["x 3"]),
            )
            line = self.sum(to, *((i, words[f"strip {axis}"]) for axis, i in places))
            low, high = (b.select(inside, place, end) for place in (left, right))
            copy_row(line, source, low, high, end)

    def clear(self, row: IR, low: IR, high: IR, end: IR) -> None:
        """Write zeros around pixels ``low`` to ``high`` of a row."""
        for first, last in ((i64(0), low), (high, end)):
            nbytes, pitch = self.b.sub(last, first), self.words["strip 3"]
            place = self.address(self.b.add(row, self.b.mul(first, pitch)))
            zero(self.b, place, self.b.mul(nbytes, pitch))

    def copy_channels(self, to: IR, source: IR, count: IR, low: IR, high: IR, end: IR) -> None:
        """Copy a row of pixels of ``count`` channels each, with zeros around it."""
        b = self.b
        self.clear(to, low, high, end)
        middle = b.add(to, b.mul(low, self.words["strip 3"]))
        self.copy_pixels(middle, source, count, b.sub(high, low))

    def copy_pixels(self, to: IR, source: IR, count: IR, pixels: IR) -> None:
        """Copy pixels of ``count`` channels each."""
        b, words = self.b, self.words
        # Where pixels are contiguous on both sides, a row of them is one copy.
        dense = b.icmp_signed("!=", words["dense"], i64(0))
        columns = b.select(dense, b.mul(pixels, count), count)
        sides = (
            (to, words["strip 3"], i64(self.itemsize)),
            (source, words["x 3"], words["x_channel"]),
        )
        self.move("x_move", *sides, b.select(dense, i64(1), pixels), columns)
