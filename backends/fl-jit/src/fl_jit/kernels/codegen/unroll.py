"""Unroll factors of loops: rows at a time, and vectors of one row."""

from __future__ import annotations

from fl_jit.kernels.codegen.instructions import EXPENSIVE, REDUCTIONS
from fl_jit.kernels.codegen.program import Program
from fl_jit.kernels.codegen.schedule import Pass, Schedule
from fl_jit.kernels.codegen.vectors import IR, i64

#: Rows of up to so many elements may be interleaved. For longer ones, sequential reads are two to
#: three times as fast as interleaved ones, because of hardware prefetching.
SHORT = 64


def is_short(b: IR, row_length: IR) -> IR:
    """Whether several rows of that length are interleaved."""
    return b.icmp_signed("<=", row_length, i64(SHORT))


def rows_together(program: Program, plan: Schedule) -> int:
    """The number of short rows that a column reduction combines before it updates memory.

    It is one if a row has several passes, or needs many registers.
    """
    made = program.instructions
    if len(plan.passes) > 1 or plan.row_outputs or plan.draws:
        return 1
    (only,) = plan.passes
    parameters = {made[i].parameter for i in only.reductions}
    if "column" not in parameters or "row" in parameters or any(o.at for o in program.outputs):
        return 1
    work = _work(program, only)
    return 4 if work <= 16 else 2 if work <= 32 else 1


def has_short_form(program: Program, plan: Schedule) -> bool:
    """Whether there is special code for rows of one vector.

    It avoids the loops and partial results of longer rows. Programs with other reductions do not
    have it: the code would be long, and would compile up to twice as long.
    """
    reductions = [program.instructions[i] for each in plan.passes for i in each.reductions]
    return (
        program.row_axes == 1 and bool(reductions) and all(r.parameter == "row" for r in reductions)
    )


def copies(program: Program, plan: Schedule, each: Pass) -> int:
    """The unroll factor of a pass, in vectors: enough to hide the latency of short bodies.

    With several passes it is at most two. More partial results would cost at the end of each pass
    as much as they save.
    """
    work = _work(program, each)
    if work <= 2 and len(plan.passes) == 1:
        return 4
    return 2 if work <= 20 else 1


def _work(program: Program, each: Pass) -> int:
    return sum(
        8 if program.instructions[i].op in EXPENSIVE else 1
        for i in each.compute
        if program.instructions[i].op not in REDUCTIONS
    )
