"""Schedule of a program: the number of passes over a row, and the instructions of each.

A reduction over a row has to be complete before its result can be used. The instructions are thus
divided into levels, and each level is a pass over the row. A later pass recomputes values of
earlier ones, unless they are expensive. Expensive values are *kept* in the worker's scratch memory.

Outputs are written in the last pass only. An output may therefore share memory with an input of the
same strides.
"""

from __future__ import annotations

from typing import NamedTuple

from fl_jit.kernels.codegen.instructions import EXPENSIVE, REDUCTIONS
from fl_jit.kernels.codegen.program import Output, Program


class Pass(NamedTuple):
    """One pass over a row.

    compute     values that vary within a row, in dependency order
    reductions  of this pass, over any extent
    outputs     that are written in this pass
    keep        values that are stored for a later pass
    reload      values that an earlier pass has stored
    """

    compute: tuple[int, ...]
    reductions: tuple[int, ...]
    outputs: tuple[Output, ...]
    save: tuple[int, ...]
    reload: tuple[int, ...]


class Schedule(NamedTuple):
    """The computation of a program's outputs, in order.

    once      values that are the same everywhere
    by_row    per level, row-invariant values that are computed before the pass of that level
    passes    over each row, one per level
    row_outputs       one number per row, written after the passes
    late_reductions   column reductions and totals
    late_outputs      written when all rows are done
    saved             values with space in scratch memory
    draws             random words, by (seed, offset, step)
    """

    once: tuple[int, ...]
    per_row: tuple[tuple[int, ...], ...]
    passes: tuple[Pass, ...]
    row_outputs: tuple[Output, ...]
    late_reductions: tuple[int, ...]
    late_outputs: tuple[Output, ...]
    saved: tuple[int, ...]
    draws: tuple[tuple[int, int, int], ...]


def schedule(program: Program) -> Schedule:
    """The passes of ``program``."""
    nodes, values = program.instructions, program.values
    live = needed(program, [i for output in program.outputs for i in _read(output)])
    element, per_row, late = _sorted_outputs(program)
    reductions = [i for i in live if nodes[i].op in REDUCTIONS]
    levels = [values[nodes[i].operands[0]].level for i in reductions]
    last = max(levels + [values[i].level for o in element for i in _read(o)], default=-1)
    passes: list[Pass] = []
    first_pass: dict[int, int] = {}
    saved: dict[int, set[int]] = {}
    for level in range(last + 1):
        of_level = [i for i, at in zip(reductions, levels) if at == level]
        written = element if level == last else []
        roots = [nodes[i].operands[0] for i in of_level] + [o.value for o in written]
        compute, reload = _demanded(program, roots, first_pass)
        for i in reload:
            saved.setdefault(first_pass[i], set()).add(i)
        for i in compute:
            first_pass.setdefault(i, level)
        passes.append(Pass(tuple(compute), tuple(of_level), tuple(written), (), tuple(reload)))
    passes = [p._replace(save=tuple(sorted(saved.get(i, ())))) for i, p in enumerate(passes)]
    single = [
        i
        for i in live
        if not (values[i].per_element or values[i].late or nodes[i].op in REDUCTIONS)
    ]
    once = tuple(i for i in single if not values[i].per_row and not values[i].level)
    rows = [i for i in single if i not in once]
    top = max([values[i].level for i in rows] + [last + 1])
    return Schedule(
        once=once,
        per_row=tuple(tuple(i for i in rows if values[i].level == k) for k in range(top + 1)),
        passes=tuple(passes),
        row_outputs=tuple(per_row),
        late_reductions=tuple(i for i in reductions if nodes[i].parameter != "row"),
        late_outputs=tuple(late),
        saved=tuple(sorted(i for values_of_pass in saved.values() for i in values_of_pass)),
        draws=tuple(
            dict.fromkeys(
                (*nodes[i].operands, nodes[i].parameter[0])
                for i in live
                if nodes[i].op == "random_bits"
            )
        ),
    )


def needed(program: Program, roots: list[int], beyond: bool = True) -> list[int]:
    """``roots`` and the values that they depend on, in order.

    Without ``beyond``, reductions count as known, and their operands are not visited.
    """
    live = set(roots)
    for i in range(max(roots, default=-1), -1, -1):
        if i in live and (beyond or program.instructions[i].op not in REDUCTIONS):
            live.update(program.instructions[i].operands)
    return sorted(live)


def _read(output: Output) -> list[int]:
    return [output.value] if output.at is None else [output.value, output.at]


def _sorted_outputs(program: Program) -> tuple[list[Output], list[Output], list[Output]]:
    # Outputs of elements, outputs of rows, and outputs that depend on all rows.
    element, per_row, late = [], [], []
    for output in program.outputs:
        outer, row = output.axes[: program.outer], output.axes[program.outer :]
        if output.at is not None:
            element.append(output)
        elif program.values[output.value].late or (outer and not outer.strip(".")):
            late.append(output)
        elif row.strip("."):
            element.append(output)
        else:
            per_row.append(output)
    return element, per_row, late


def _demanded(
    program: Program, roots: list[int], earlier: dict[int, int]
) -> tuple[list[int], list[int]]:
    # The values that a pass computes per element, and those of earlier passes that it reloads.
    compute: set[int] = set()
    reload: set[int] = set()
    stack = list(roots)
    while stack:
        i = stack.pop()
        if i in compute or i in reload or not program.values[i].per_element:
            continue
        if i in earlier and program.instructions[i].op in EXPENSIVE:
            reload.add(i)
            continue
        compute.add(i)
        if program.instructions[i].op != "random_bits":
            stack += program.instructions[i].operands
    return sorted(compute), sorted(reload)
