"""How much a turn of a loop does: rows at a time, and vectors of one row."""

from __future__ import annotations

from fl_jit.kernels.codegen.instructions import EXPENSIVE, REDUCTIONS
from fl_jit.kernels.codegen.program import Program
from fl_jit.kernels.codegen.schedule import Pass, Schedule
from fl_jit.kernels.codegen.vectors import IR, i64

#: Rows of up to so many elements may be done several at a time. Of longer ones memory is read twice
#: to three times as fast in its order, each to its end, than in turns: processors read ahead.
SHORT = 64


def is_short(b: IR, row_length: IR) -> IR:
    """Whether several rows of that length are done at a time."""
    return b.icmp_signed("<=", row_length, i64(SHORT))


def rows_together(program: Program, plan: Schedule) -> int:
    """How many short rows a column reduction takes at a time, before it adds them to what it has in
    memory. One where a row is more than one pass, or has much to keep in registers."""
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
    """Whether there is code for rows of one vector, too, which take less time than the loops and
    partial results of longer ones. Not where other reductions make the code long: LLVM would take
    up to twice as much time."""
    made = [program.instructions[i] for each in plan.passes for i in each.reductions]
    return program.row_axes == 1 and bool(made) and all(one.parameter == "row" for one in made)


def copies(program: Program, plan: Schedule, each: Pass) -> int:
    """How many vectors a turn of the loop does: enough to hide the latency of short bodies. Where a
    row is several passes, two: what more partial results save, they cost at the end of each."""
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
