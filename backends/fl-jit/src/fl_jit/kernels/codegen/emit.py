"""LLVM IR of a program: ``sweep``, ``finish`` if some results depend on all rows, and ``run``.

``run(arguments)`` does all of it in the calling thread. The header of a job precedes its arguments
(``thread_pools.py``). Thread pools call the other two functions on parts of the work. Results do
not depend on the partition.
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen import philox, target
from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.emit_finish import Finish
from fl_jit.kernels.codegen.emit_sweep import Sweep
from fl_jit.kernels.codegen.program import Program
from fl_jit.kernels.codegen.schedule import Schedule, schedule
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.thread_pools import HEADER, REVERSED
from fl_jit.kernels.codegen.vectors import IR, i64, pointer


def emit(
    program: Program, machine: Target, plan: Schedule | None = None, streams: bool = False
) -> str:
    """The module of ``program`` for ``machine``; ``streams``: outputs use non-temporal stores."""
    plan = plan or schedule(program)
    module, lanes, draw = module_of(program, plan, machine)
    sweep = Sweep(module, program, plan, machine, lanes, draw, streams)
    finish = Finish(module, program, plan, machine, lanes) if plan.late_outputs else None
    run = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer]), "run")
    b = Builder(run.append_basic_block("entry"))
    chunks = sweep.layout.load(b, run.args[0], "chunks")
    reversed_ = b.gep(run.args[0], [i64(REVERSED - HEADER)], source_etype=i64)
    is_reversed = b.icmp_signed("!=", b.load(reversed_, typ=i64, align=8), i64(0))
    ends = [b.select(is_reversed, *pair) for pair in ((chunks, i64(0)), (i64(0), chunks))]
    b.call(sweep.function, [run.args[0], *ends, i64(0)])
    if finish is not None:
        pieces = finish.layout.load(b, run.args[0], "pieces")
        b.call(finish.function, [run.args[0], i64(0), pieces, i64(0)])
    b.ret_void()
    return str(module)


def module_of(program: Program, plan: Schedule, machine: Target) -> tuple[IR, int, IR]:
    """A module without the functions of ``program``, the lanes of a vector, and the function that
    draws random words, if there is one.

    The narrowest floating dtype determines the lanes, else the narrowest dtype.
    """
    floats = [v.dtype.itemsize for v in program.values if v.dtype.is_floating]
    lanes = machine.lanes(min(floats or [v.dtype.itemsize for v in program.values]))
    module = ir.Module("kernel")
    module.triple = target.triple()
    return module, lanes, philox.define(module, machine, lanes) if plan.draws else None
