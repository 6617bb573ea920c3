"""Packing of transposed inputs, which are contiguous along the last outer axis instead of along
rows.

A read of such an input along a row uses one element of every cache line. A block of rows is
therefore packed first, in the worker's memory. Squares of as many rows and columns as a vector has
lanes are loaded, transposed in registers, and stored as parts of contiguous rows.
"""

from __future__ import annotations

from fl_jit.kernels.codegen.accumulate import Accumulation
from fl_jit.kernels.codegen.vectors import IR, i8, i64

#: Rows of a block.
ROWS = 64
#: Prefetch distance along the rows, in squares. Hardware prefetchers do not detect this pattern.
PREFETCH_DISTANCE = 2


class Transposition(Accumulation):
    """A function that packs transposed inputs; ``blocks`` are the packed blocks by operand."""

    blocks: dict[int, IR]
    #: The number of the first row of the block.
    block_start: IR

    def letters(self, operand: int) -> str:
        """As in the program, except that rows of a block are contiguous."""
        if operand in self.blocks:
            return "." * self.program.outer + "c"
        return super().letters(operand)

    def _pack_rows(self, operand: int, indices: list[IR], count: IR) -> None:
        """Pack ``count`` rows into the block; ``indices`` are the outer indices of the first."""
        b, of, lanes = self.b, self.of, self.of.lanes
        element = self.memory(operand)
        start, letters = self.address(operand), self.layout.operand_axes[operand]
        for outer, index in enumerate(indices):
            start = self._along(operand, letters[outer], start, outer, index)
        stride = self.args[f"stride {operand} {self.program.rank - 1}"]
        last = b.sub(self.high, i64(1))
        with (
            self.loop(self.low, self.high, lanes) as column,
            self.loop(i64(0), count, lanes) as row,
        ):
            mask = of.first(b.sub(count, row))
            corner = self.at(start, element, row)
            columns = [self.minimum(b.add(column, i64(k)), last) for k in range(lanes)]
            addresses = [self.at(corner, element, b.mul(at, stride)) for at in columns]
            for start_of_row in addresses:
                of.prefetch(self.at(start_of_row, element, i64(PREFETCH_DISTANCE * lanes)))
            square = [of.load(element, start_of_row, mask) for start_of_row in addresses]
            for k, vector in enumerate(of.transposed(square)):
                address = self._block_row(operand, b.add(row, i64(k)))
                of.store(vector, self.at(address, element, b.sub(column, self.low)))

    def _packed_row(self, operand: int, row: IR) -> IR:
        """The virtual start of a row of the block, which holds only a tile from ``low`` on."""
        element = self.memory(operand)
        return self.at(self._block_row(operand, row), element, self.b.neg(self.low))

    def _block_row(self, operand: int, row: IR) -> IR:
        return self.at(self.blocks[operand], i8, self.b.mul(row, self.args["region"]))
