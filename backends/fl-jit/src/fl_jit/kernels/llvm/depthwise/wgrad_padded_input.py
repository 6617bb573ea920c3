"""Zero-padded copies of input tiles for the wgrad of depthwise convolutions.

Each tile has one vector of channels.
"""

from __future__ import annotations

from fl_jit.kernels.codegen.vectors import IR, i64
from fl_jit.kernels.llvm.conv_wgrad.kernel_args import AXES
from fl_jit.kernels.llvm.conv_wgrad.padded_input import InputTiles
from fl_jit.kernels.llvm.depthwise import copies
from fl_jit.kernels.llvm.loop_nest import zero


class CopiedInputTiles(InputTiles):
    """A loop nest with the arguments of ``wgrad_kernel_args.py``."""

    def copy_image(self, image: IR, to: IR, count: IR) -> None:
        """Copy the window of the tile, of ``count`` channels of an image, with zeros around the
        image."""
        b, words = self.b, self.words
        near = b.icmp_signed("==", words["x_channel"], i64(self.given.itemsize))
        with b.if_else(near) as (planes, rows):
            with planes:
                self._planes(image, to, count)
            with rows:
                partial = b.icmp_signed("<", count, i64(self.of.lanes))
                with self.when(partial):
                    zero(b, self.address(to), words["packed_at"])
                self.copy_x(
                    image,
                    to,
                    lambda line, source, *row: self.copy_channels(line, source, count, *row),
                )

    def _planes(self, image: IR, to: IR, count: IR) -> None:
        # The same for contiguous channels.
        b, words = self.b, self.words
        seen, low, high, first = [], [], [], []
        for axis in range(AXES):
            stride = words[f"stride {axis}"]
            more = b.mul(b.sub(self.extents[axis], i64(1)), stride)
            size = b.add(more, words[f"reach {axis}"])
            before = b.sub(b.mul(self.starts[axis], stride), words[f"low {axis}"])
            start = self.minimum(self.maximum(b.neg(before), i64(0)), size)
            end = self.minimum(b.sub(words[f"extent {axis}"], before), size)
            seen.append(size)
            first.append(b.add(before, start))
            low.append(start)
            high.append(self.maximum(end, start))
        line = words["strip 2"]
        lines = b.sub(high[2], low[2])
        with self.loop(i64(0), seen[0]) as n, self.loop(i64(0), seen[1]) as depth:
            plane = self.sum(to, (n, words["strip 0"]), (depth, words["strip 1"]))
            inside = b.and_(b.icmp_signed(">=", depth, low[1]), b.icmp_signed("<", depth, high[1]))
            above, inner = (
                b.select(inside, each, other)
                for each, other in ((low[2], seen[2]), (lines, i64(0)))
            )
            below = b.sub(b.sub(seen[2], above), inner)
            zero(b, self.address(plane), b.mul(above, line))
            source = self.sum(
                image,
                (b.add(self.starts[0], n), words["x 0"]),
                (b.add(first[1], b.sub(depth, low[1])), words["x 1"]),
                (first[2], words["x 2"]),
                (first[3], words["x 3"]),
            )
            here = b.add(plane, b.mul(above, line))
            middle = b.sub(high[3], low[3])
            self.call(
                words["copy_plane"],
                copies.SIGNATURE,
                *(self.address(here), line, self.address(source), words["x 2"], words["x 3"]),
                *(inner, low[3], middle, b.sub(seen[3], high[3]), count),
            )
            zero(b, self.address(b.add(here, b.mul(inner, line))), b.mul(below, line))
