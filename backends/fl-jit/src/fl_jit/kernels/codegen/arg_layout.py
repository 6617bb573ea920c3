"""Arguments of the kernel of a program.

Those that change from call to call come first: work memory, the addresses of inputs and outputs,
and scalars (floating ones as float64, others as int64). Those that depend on sizes and strides
follow.
"""

from __future__ import annotations

from fl_jit.kernels.codegen.arg_struct import ArgStruct
from fl_jit.kernels.codegen.program import Program

#: The division of the iteration space; see ``grid.py``.
GRID = ("region", "worker_bytes", "chunks", "row_chunks", "grain", "tile", "tiles", "rows")
#: The length of a row, and the number of pieces of the last phase.
REST = ("row_length", "pieces")


class ArgLayout(ArgStruct):
    """The arguments of a program's kernel. Operands are the inputs, then the outputs."""

    def __init__(self, program: Program) -> None:
        made = program.instructions
        self.operand_axes = [made[i].parameter[1] for i in program.inputs]
        self.operand_axes += [output.axes for output in program.outputs]
        per_call = ["scratch", "partials"]
        per_call += [f"address {i}" for i in range(len(self.operand_axes))]
        per_call += [f"scalar {i}" for i in program.scalars]
        names = [*GRID, *REST, *(f"size {axis}" for axis in range(program.rank))]
        #: (operand, axis) of the strides that are arguments.
        self.strides = [
            (operand, axis)
            for operand, axes in enumerate(self.operand_axes)
            for axis, letter in enumerate(axes)
            if letter == "s"
        ]
        #: Transposed inputs, whose rows are packed into blocks.
        self.transposed = [i for i, axes in enumerate(self.operand_axes) if "t" in axes]
        names += [f"stride {operand} {axis}" for operand, axis in self.strides]
        #: Operands with an indexed axis: its stride and its size are arguments.
        self.indexed = [
            operand for operand, value in enumerate(program.inputs) if made[value].op == "gather"
        ]
        self.indexed += [
            len(program.inputs) + number
            for number, output in enumerate(program.outputs)
            if output.at is not None
        ]
        for operand in self.indexed:
            names += [f"index stride {operand}", f"index size {operand}"]
        self.scalar_dtypes = [program.values[i].dtype for i in program.scalars]
        floating = {f"scalar {i}" for i in program.scalars if program.values[i].dtype.is_floating}
        super().__init__(names, per_call, floating)
