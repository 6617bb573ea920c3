"""Addresses of the tiles of a wgrad: rows of the result, panels of features, accumulators."""

from __future__ import annotations

from fl_jit.kernels.codegen.vectors import IR, i64
from fl_jit.kernels.llvm.loop_nest import Emitter


class Tiles(Emitter):
    """A builder of a function with the fields of ``kernel_args.py``."""

    @property
    def shared(self) -> IR:
        """The address of the shared memory, as an integer."""
        return self.b.add(self.words["workspace"], self.words["shared_at"])

    def rows_of(self, tile: IR) -> tuple[IR, IR, IR]:
        """The first row of a tile, its number of rows, and whether it is a longer one."""
        b, words = self.b, self.words
        longer = b.icmp_signed("<", tile, words["longer"])
        before = self.minimum(tile, words["longer"])
        first = b.add(b.mul(tile, words["tile_size"]), before)
        return first, b.add(words["tile_size"], b.zext(longer, i64)), longer

    def columns_of(self, panel: IR) -> IR:
        """The number of features of a panel."""
        b, width = self.b, self.words["width"]
        return self.minimum(b.sub(self.words["features"], b.mul(panel, width)), width)

    def sums_of(self, group: IR, part: IR, panel: IR, row: IR) -> IR:
        """The offset of a tile's accumulators."""
        words = self.words
        return self.sum(
            (group, words["group_sums"]),
            (part, words["part_sums"]),
            (panel, words["panel_sums"]),
            (row, words["tile_sums"]),
        )
