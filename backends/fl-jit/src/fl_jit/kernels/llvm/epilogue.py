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

import math
from collections.abc import Sequence
from typing import Any

from fl_jit.kernels.codegen import compile, emit_block, target
from fl_jit.kernels.codegen.arg_layout import GRID, REST, ArgLayout
from fl_jit.kernels.codegen.arg_struct import FIELD
from fl_jit.kernels.codegen.errors import ProgramError
from fl_jit.kernels.codegen.grid import cut
from fl_jit.kernels.codegen.program import Builder, Program
from fl_jit.kernels.codegen.schedule import schedule
from fl_jit.kernels.descriptors import ACTIVATIONS, ConvDataGrad, Convolution, Epilogue, Matmul
from fl_jit.kernels.layout import Layout, Placement, Shape, dense
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
    found = of(descriptor)
    if found is None:
        return None
    try:
        return Prepared(found)
    except ProgramError as error:
        raise UnsupportedError(str(error)) from error


def of(descriptor: Matmul | Convolution | ConvDataGrad) -> Epilogue | None:
    """The epilogue of ``descriptor``, including its bias and its activation by name."""
    bias = None if isinstance(descriptor, ConvDataGrad) else descriptor.bias
    activation = "" if isinstance(descriptor, ConvDataGrad) else descriptor.activation
    if descriptor.epilogue is not None or (bias is None and not activation):
        return descriptor.epilogue
    out, rank = _by_strides(descriptor.out), len(descriptor.out.shape)
    order = tuple(range(rank)) if isinstance(descriptor, Matmul) else (0, *range(2, rank), 1)
    rows = _ordered(out, order)
    beside = None
    if bias is not None:
        found = _by_strides(bias)
        if isinstance(descriptor, Matmul):
            beside = _ordered(_spread(found, out.shape), order)
        else:
            assert found.strides is not None
            beside = Layout(found.dtype, rows.shape, (0,) * (rank - 1) + found.strides)
    return common(rows, beside, activation)


def common(out: Layout, bias: Layout | None, activation: str) -> Epilogue:
    """``activation(out + bias)`` over the axes of ``out``, columns last; ``activation`` is one of
    ``ACTIVATIONS``."""
    given = [each for each in (out, bias) if each is not None]
    sizes, moves = _joined(out.shape, [each.strides or () for each in given])
    build = Builder(len(sizes))
    value = build.input(out.dtype, _letters(sizes, moves[0]))
    if bias is not None:
        beside = build.input(bias.dtype, _letters(sizes, moves[1]))
        if bias.dtype is not out.dtype:
            beside = build.cast(beside, out.dtype)
        value = build("add", value, beside)
    value = _activated(build, value, activation, out)
    build.output(value, _all_moving(moves[0]))
    return Epilogue(build.program(), sizes, (*moves, moves[0]))


def _activated(build: Builder, x: int, activation: str, out: Layout) -> int:
    def constant(value: float) -> int:
        return build.constant(value, out.dtype)

    if activation not in ACTIVATIONS:
        raise UnsupportedError(f"activation {activation!r}: expected one of {ACTIVATIONS}")
    if not activation:
        return x
    if activation == "relu":
        return build("maximum", x, constant(0.0))
    if activation == "tanh":
        return build("tanh", x)
    if activation == "sigmoid":  # a form without overflow
        above = build("exp", build("minimum", x, constant(0.0)))
        below = build("exp", build("negative", build("absolute", x)))
        return build("divide", above, build("add", constant(1.0), below))
    if activation == "gelu":  # x Phi(x), Hendrycks & Gimpel, arXiv:1606.08415
        inner = build("erf", build("multiply", x, constant(math.sqrt(0.5))))
    else:  # the tanh approximation of the same paper
        cube = build("multiply", build("multiply", x, x), x)
        inner = build("add", x, build("multiply", cube, constant(0.044715)))
        inner = build("tanh", build("multiply", inner, constant(math.sqrt(2 / math.pi))))
    half = build("multiply", x, constant(0.5))
    return build("multiply", half, build("add", inner, constant(1.0)))


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


# ---- layouts -------------------------------------------------------------------------------------


def _by_strides(given: Placement) -> Layout:
    if not isinstance(given, Layout):
        raise UnsupportedError(f"an epilogue goes by strides, and has none for {given}")
    if given.strides is None:
        return Layout(given.dtype, given.shape, dense(given.shape, tuple(range(len(given.shape)))))
    return given


def _ordered(given: Layout, order: Shape) -> Layout:
    assert given.strides is not None
    shape, strides = given.shape, given.strides
    return Layout(given.dtype, tuple(shape[a] for a in order), tuple(strides[a] for a in order))


def _spread(given: Layout, shape: Shape) -> Layout:
    assert given.strides is not None
    moves = zip(given.shape, given.strides, strict=True)
    return Layout(given.dtype, shape, tuple(0 if n == 1 else s for n, s in moves))


def _joined(sizes: Shape, strides: Sequence[Shape]) -> tuple[Shape, tuple[Shape, ...]]:
    # Merges outer axes where all operands have compatible strides.
    joined = [sizes[-2]] if len(sizes) > 1 else [1]
    moves = [[s[-2]] if len(sizes) > 1 else [0] for s in strides]
    for axis in range(len(sizes) - 3, -1, -1):
        if all(s[axis] == m[0] * joined[0] for s, m in zip(strides, moves, strict=True)):
            joined[0] *= sizes[axis]
            continue
        joined.insert(0, sizes[axis])
        for s, m in zip(strides, moves, strict=True):
            m.insert(0, s[axis])
    last = [s[-1] for s in strides]
    return (*joined, sizes[-1]), tuple((*m, s) for m, s in zip(moves, last, strict=True))


def _letters(sizes: Shape, strides: Shape) -> str:
    found = ["." if not s or n == 1 else "s" for n, s in zip(sizes, strides, strict=True)]
    return "".join(found[:-1]) + ("c" if strides[-1] == 1 else found[-1])


def _all_moving(strides: Shape) -> str:
    return "s" * (len(strides) - 1) + ("c" if strides[-1] == 1 else "s")
