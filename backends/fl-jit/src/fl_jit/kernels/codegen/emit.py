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
from fl_jit.kernels.codegen.thread_pools import HEADER, TURNED
from fl_jit.kernels.codegen.vectors import i64, pointer


def emit(
    program: Program, machine: Target, plan: Schedule | None = None, streams: bool = False
) -> str:
    """The module of ``program`` for ``machine``; ``streams``: outputs use non-temporal stores."""
    plan = plan or schedule(program)
    lanes = machine.lanes(narrowest(program))
    module = ir.Module("kernel")
    module.triple = target.triple()
    draw = philox.define(module, machine, lanes) if plan.draws else None
    sweep = Sweep(module, program, plan, machine, lanes, draw, streams)
    finish = Finish(module, program, plan, machine, lanes) if plan.late_outputs else None
    run = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer]), "run")
    b = Builder(run.append_basic_block("entry"))
    chunks = sweep.layout.load(b, run.args[0], "chunks")
    turned = b.gep(run.args[0], [i64(TURNED - HEADER)], source_etype=i64)
    is_turned = b.icmp_signed("!=", b.load(turned, typ=i64, align=8), i64(0))
    ends = [b.select(is_turned, *pair) for pair in ((chunks, i64(0)), (i64(0), chunks))]
    b.call(sweep.function, [run.args[0], *ends, i64(0)])
    if finish is not None:
        pieces = finish.layout.load(b, run.args[0], "pieces")
        b.call(finish.function, [run.args[0], i64(0), pieces, i64(0)])
    b.ret_void()
    return str(module)


def narrowest(program: Program) -> int:
    """Bytes of the narrowest floating dtype, else of the narrowest dtype.

    This dtype determines the lanes of a vector.
    """
    floats = [v.dtype.itemsize for v in program.values if v.dtype.is_floating]
    return min(floats or [v.dtype.itemsize for v in program.values])
