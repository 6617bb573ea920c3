"""Fused epilogues: post-ops on each block of a result that is complete, while it is in cache.

An epilogue is a program (``fl_jit.kernels.codegen``) over the rows and columns of a result. A loop
nest calls its machine code after the last k block of some rows and columns:

    void block(ptr args, i64 row, i64 rows, i64 column, i64 columns, i64 worker)

Rows are numbered in C order over all axes but the last one: (..., m) of a matrix product, (batch,
*spatial) of an image. Columns are those of a matrix product, or channels. Both are counted from the
beginning of the result. Each element belongs to exactly one call, which follows the completion of
its accumulation in the result. Workers have numbers, since some programs need private scratch
memory.

    k blocks of the accumulation        epilogue, in L1 or L2
    C[i:i+m, j:j+n] += A B   ...  ->    C[i:i+m, j:j+n] = max(C + bias, 0), for example
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fl_jit.kernels.codegen import compile, emit_block, target
from fl_jit.kernels.codegen.arg_layout import GRID, REST, ArgLayout
from fl_jit.kernels.codegen.arg_struct import FIELD
from fl_jit.kernels.codegen.errors import ProgramError
from fl_jit.kernels.codegen.grid import cut
from fl_jit.kernels.codegen.program import Program
from fl_jit.kernels.codegen.schedule import schedule
from fl_jit.kernels.descriptors import ConvDataGrad, Convolution, Epilogue, Matmul
from fl_jit.kernels.layout import Shape
from fl_jit.kernels.library import UnsupportedError


class Prepared:
    """The machine code of an epilogue and the arguments that a loop nest calls it with.

    address  address of the machine code
    fields   its arguments, 0 in those that differ from call to call
    reads    layouts of the inputs other than the result
    writes   layouts of the outputs other than the result
    """

    def __init__(self, epilogue: Epilogue) -> None:
        program, sizes, strides = epilogue
        layout = ArgLayout(program)
        _check(program, sizes, strides, len(layout.operand_axes))
        grid = cut(program, schedule(program), sizes)
        region = (sizes[-1] + 64) * FIELD
        regions = sum((step + 1) // 2 for _, _, step in schedule(program).draws)
        self._mine = -(-regions * region // 64) * 64
        grid = grid._replace(region=region, worker_bytes=self._mine)
        fields = [0] * layout.per_call
        fields += [getattr(grid, name) for name in (*GRID, *REST)] + list(sizes)
        fields += [strides[operand][axis] for operand, axis in layout.strides]
        for operand in layout.indexed:
            fields += strides[operand][program.rank :]
        self.fields = fields
        self._code = _loaded(program)
        self.address = self._code.address(emit_block.Block.name)
        self.reads, self.writes = epilogue.reads, epilogue.writes
        self._pack = layout.pack_into

    def scratch(self, workers: int) -> int:
        """Bytes of scratch memory, at an address that is a multiple of 64."""
        return self._mine * workers

    def write(self, block: Any, offset: int, addresses: Sequence[int], scratch: int = 0) -> None:
        """Write the arguments of a call to ``block``, an array of ctypes that has ``fields`` at
        ``offset`` bytes. ``addresses`` are those of the program's inputs and then of its outputs.
        The result comes first in both."""
        self._pack(block, offset, scratch, 0, *addresses)


def prepare(descriptor: Matmul | Convolution | ConvDataGrad) -> Prepared | None:
    """The epilogue of ``descriptor``; None if there is none. Raises UnsupportedError."""
    if descriptor.epilogue is None:
        return None
    try:
        return Prepared(descriptor.epilogue)
    except ProgramError as error:
        raise UnsupportedError(str(error)) from error


# ---- code ----------------------------------------------------------------------------------------

_codes: dict[str, compile.Code] = {}


def _loaded(program: Program) -> compile.Code:
    found = _codes.get(program.text)
    if found is None:
        machine = target.host()
        about = f"block {machine.vector_bits}\n{program.text}"
        found = compile.load(about, lambda: emit_block.emit(program, machine), machine)
        found = _codes.setdefault(program.text, found)  # another thread may have inserted it
    return found


def _check(program: Program, sizes: Shape, strides: Sequence[Shape], count: int) -> None:
    emit_block.check(program)
    if len(sizes) != program.rank or len(strides) != count:
        raise ProgramError(
            f"[epilogue] {len(sizes)} sizes and strides of {len(strides)} operands: expected "
            f"{program.rank} and {count}"
        )
    if program.scalars:
        raise ProgramError("[epilogue] a scalar: single numbers are operands that do not move")
    if not program.inputs or program.values[program.inputs[0]].dtype is not (
        program.values[program.outputs[0].value].dtype
    ):
        raise ProgramError("[epilogue] its first output takes the place of its first input")
