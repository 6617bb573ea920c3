"""Where the tiles of a gradient of weights are: rows of the result, panels of features, sums."""

from __future__ import annotations

from fl_jit.kernels.codegen.vectors import IR, i64
from fl_jit.kernels.llvm.loop_nest import Emitter


class Tiles(Emitter):
    """A function in the making whose words are those of ``words.py``."""

    @property
    def shared(self) -> IR:
        """Where the memory of all threads begins, as a number."""
        return self.b.add(self.words["workspace"], self.words["shared_at"])

    def rows_of(self, tile: IR) -> tuple[IR, IR, IR]:
        """The first row of a tile, how many it has, and whether it is a longer one."""
        b, words = self.b, self.words
        longer = b.icmp_signed("<", tile, words["longer"])
        before = self.minimum(tile, words["longer"])
        first = b.add(b.mul(tile, words["tile_size"]), before)
        return first, b.add(words["tile_size"], b.zext(longer, i64)), longer

    def columns_of(self, panel: IR) -> IR:
        """How many features a panel has."""
        b, width = self.b, self.words["width"]
        return self.minimum(b.sub(self.words["features"], b.mul(panel, width)), width)

    def sums_of(self, group: IR, part: IR, panel: IR, row: IR) -> IR:
        """How far a tile's sums are behind the first ones."""
        words = self.words
        return self.sum(
            (group, words["group_sums"]),
            (part, words["part_sums"]),
            (panel, words["panel_sums"]),
            (row, words["tile_sums"]),
        )
