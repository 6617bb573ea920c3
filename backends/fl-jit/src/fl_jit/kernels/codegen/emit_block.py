"""Block function of a program: one block of the iteration space, for callers that have it in cache.

``block(arguments, row, rows, column, columns, worker)`` computes ``rows`` rows from ``row`` on and
``columns`` columns from ``column`` on. Rows are numbered in C order over the outer axes. There are
no chunks and no ``finish`` phase. A program with a reduction therefore has no block function.
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen.emit import module_of
from fl_jit.kernels.codegen.emit_sweep import Sweep
from fl_jit.kernels.codegen.errors import ProgramError
from fl_jit.kernels.codegen.function import Position
from fl_jit.kernels.codegen.instructions import REDUCTIONS
from fl_jit.kernels.codegen.passes import Row
from fl_jit.kernels.codegen.program import Program
from fl_jit.kernels.codegen.schedule import Pass, schedule
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64, pointer

SIGNATURE = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64, i64, i64])


class Block(Sweep):
    """Emits ``block`` into ``module``."""

    name = "block"
    signature = SIGNATURE

    def _all(self) -> None:
        row, rows, self.low, columns = self.range
        self.high = self.b.add(self.low, columns)
        self._range(row, self.b.add(row, rows))

    def _write(self, each: Pass, position: Position, row: Row, known: dict[int, IR]) -> None:
        result, (first, *others) = self.program.inputs[0], each.outputs
        if first.value == result:  # it is there already
            each = each._replace(outputs=tuple(others))
        super()._write(each, position, row, known)


def emit(program: Program, machine: Target) -> str:
    """The module of ``block`` for ``machine``. Raises ProgramError, as ``check`` does."""
    check(program)
    plan = schedule(program)
    module, lanes, draw = module_of(program, plan, machine)
    Block(module, program, plan, machine, lanes, draw, streams=False)
    return str(module)


def check(program: Program) -> None:
    """Raises ProgramError if a program cannot be computed block by block.

    Such a program reduces, adds at an index, has transposed inputs, or has rows of several axes or
    of none.
    """
    if program.rank < 2 or program.row_axes != 1:
        raise ProgramError(
            f"[block] {program.rank} axes, {program.row_axes} of a row: expected two or more, the "
            f"last one being the row"
        )
    if any(made.op in REDUCTIONS for made in program.instructions):
        raise ProgramError("[block] a block knows nothing of others, so nothing can be reduced")
    if any(output.at is not None or "." in output.axes for output in program.outputs):
        raise ProgramError("[block] results are values of every element, at no index")
    if any("t" in program.instructions[i].parameter[1] for i in program.inputs):
        raise ProgramError("[block] an input is transposed: 's' along its last axis will do")
