"""From a group of operations to the program of one kernel.

Axes along which every operand moves evenly are joined, so that elementwise work on arrays in C
order has one axis whatever their shapes are, and one program serves them all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from fl_tensor.backends.jit.outside import extensions
from fl_tensor.codegen import instructions
from fl_tensor.codegen.program import Builder, Program
from fl_tensor.graph import layout
from fl_tensor.graph.group import Group, Member
from fl_tensor.graph.ir import Node, Value
from fl_tensor.graph.layout import Layout, Shape
from fl_tensor.graph.reductions import REDUCTIONS, reduction_form


class Operand(NamedTuple):
    """An array of a kernel: elements of ``root`` from ``offset`` on, with these strides over the
    iteration space, all in elements."""

    root: Value
    offset: int
    strides: Shape


class Lowered(NamedTuple):
    """A program, and what to call its kernel with: sizes of the space, arrays to read, single
    numbers, arrays to write."""

    program: Program
    sizes: Shape
    inputs: list[Operand]
    scalars: list[Value]
    outputs: list[Operand]


def fusible(node: Node) -> bool:
    """Whether a kernel can have the node as a member."""
    if len(node.outputs) != 1 or any(v.dtype.kind == "c" for v in [*node.operands, *node.outputs]):
        return False
    if any(0 in v.shape for v in [*node.operands, *node.outputs]):
        return False
    if "." in node.op:
        return extensions.current().kernels.instructions(node) is not None
    found = instructions.ELEMENTWISE.get(node.op)
    if found is not None:
        return node.operands[0].dtype.kind in found.kinds
    if node.op in REDUCTIONS:
        return reduction_form(node, 0) is not None
    return node.op in ("where", "cast", "random_bits", "reshape")  # one that has to copy


def lower(
    group: Group,
    layouts: Mapping[Value, Layout],
    wanted: Collection[Value],
    numbers: Collection[Value],
) -> Lowered:
    """The kernel of ``group``, which writes its results in ``wanted``. ``numbers`` are inputs of
    the graph that are given as single numbers."""
    return Lowering(group, layouts, wanted, numbers).result()


class Lowering:
    """See ``lower``."""

    def __init__(
        self,
        group: Group,
        layouts: Mapping[Value, Layout],
        wanted: Collection[Value],
        numbers: Collection[Value],
    ) -> None:
        assert group.space is not None
        self.group, self.layouts, self.numbers = group, layouts, numbers
        self.space = group.space
        self.made = {m.result: m for m in group.members}
        self.written = [m for m in group.members if m.result in wanted]

    def result(self) -> Lowered:
        reads = self._reads()
        writes = self._writes()
        sizes, row_axes, strides = self._axes([o.strides for o in (*reads, *writes)])
        inputs = [o._replace(strides=s) for o, s in zip(reads, strides)]
        outputs = [o._replace(strides=s) for o, s in zip(writes, strides[len(reads) :])]

        build = Builder(len(sizes), row_axes)
        found: dict[Operand, int] = {}
        for before, after in zip(reads, inputs, strict=True):
            axes = self._letters(after.strides, sizes, row_axes)
            found[before] = build.input(before.root.dtype, axes)
        scalars: dict[Value, int] = {}
        results: dict[Value, int] = {}
        for member in self.group.members:
            operands = []
            for value, read in zip(member.node.operands, member.strides, strict=True):
                root = self.layouts[value].root
                if root in self.made:
                    operands.append(results[root])
                elif root in self.numbers:
                    if root not in scalars:
                        scalars[root] = build.scalar(root.dtype)
                    operands.append(scalars[root])
                else:
                    operands.append(found[Operand(root, self.layouts[value].offset, read)])
            results[member.result] = self._instruction(build, member, operands)
        self._outputs(build, found, results, len(sizes), row_axes)
        return Lowered(build.program(), sizes, inputs, list(scalars), outputs)

    # What lowering for other callers of a program does otherwise.

    def _axes(self, strides: list[Shape]) -> tuple[Shape, int, list[Shape]]:
        sizes, row_axes, strides = join_axes(self.space, self.group.row_axes, strides)
        if all(m.node.op != "random_bits" for m in self.group.members):  # which counts the rows
            sizes, strides = transposed_last(sizes, row_axes, strides)
        return sizes, row_axes, strides

    def _letters(self, strides: Shape, sizes: Shape, row_axes: int) -> str:
        return letters(strides, sizes, row_axes)

    def _writes(self) -> list[Operand]:
        return [Operand(m.result, 0, self._output_strides(m)) for m in self.written]

    def _outputs(
        self,
        build: Builder,
        read: Mapping[Operand, int],
        made: Mapping[Value, int],
        rank: int,
        row_axes: int,
    ) -> None:
        for member in self.written:
            build.output(made[member.result], output_letters(member.form, rank, row_axes))

    def _reads(self) -> list[Operand]:
        found: dict[Operand, None] = {}
        for member in self.group.members:
            for value, strides in zip(member.node.operands, member.strides, strict=True):
                root, offset, _ = self.layouts[value]
                if root not in self.made and root not in self.numbers:
                    found[Operand(root, offset, strides)] = None
        return list(found)

    def _output_strides(self, member: Member) -> Shape:
        rows = self.group.row_axes
        outer = len(self.space) - rows
        if member.form == "full":
            return layout.contiguous(self.space)
        if member.form == "row":
            return layout.contiguous(self.space[:outer]) + (0,) * rows
        if member.form == "column":
            return (0,) * outer + layout.contiguous(self.space[outer:])
        return (0,) * len(self.space)

    def _instruction(self, build: Builder, member: Member, operands: list[int]) -> int:
        node = member.node
        if node.op in REDUCTIONS:
            return build.reduce(node.op, operands[0], member.form)
        if node.op == "reshape":
            return operands[0]
        if node.op == "cast":
            return build.cast(operands[0], node.parameters["dtype"])
        if node.op == "random_bits":
            return build("random_bits", *operands, parameter=(1, 0))
        own = extensions.current().kernels.instructions(node) if "." in node.op else None
        return own(build, *operands, **node.parameters) if own else build(node.op, *operands)


def letters(strides: Shape, sizes: Shape, row_axes: int) -> str:
    """How an input moves along each axis, as a program says it."""
    made = ["." if not s or n == 1 else "s" for s, n in zip(strides, sizes, strict=True)]
    if made[-1] == "s" and strides[-1] == 1:
        made[-1] = "c"
    elif row_axes == 1 and made[-2:] == ["s", "s"] and strides[-2] == 1 and sizes[-2] >= 8:
        made[-2] = "t"
    elif made[-1] == "s" and strides[-1] == 2:
        made[-1] = "2"
    return "".join(made)


def transposed_last(sizes: Shape, row_axes: int, strides: list[Shape]) -> tuple[Shape, list[Shape]]:
    """The same with outer axes in another order, which is all the same to what is computed: last of
    them one along which an operand's elements are neighbours that are not so along rows."""
    outer = len(sizes) - row_axes
    for axis in range(outer - 1):
        if any(s[axis] == 1 and s[-1] not in (0, 1) for s in strides) and sizes[axis] > 1:
            order = [i for i in range(outer) if i != axis] + [axis]
            order += range(outer, len(sizes))
            moved = [tuple(s[i] for i in order) for s in strides]
            return tuple(sizes[i] for i in order), moved
    return sizes, strides


def output_letters(form: str, rank: int, row_axes: int) -> str:
    """The same of what a member gives, which lies in C order."""
    outer = rank - row_axes
    if form == "row":
        return "s" * outer + "." * row_axes
    if form == "all":
        return "." * rank
    return ("s" if form == "full" else ".") * outer + "s" * (row_axes - 1) + "c"


def join_axes(space: Shape, row_axes: int, strides: list[Shape]) -> tuple[Shape, int, list[Shape]]:
    """The same elements over as few axes as there can be, rows being kept apart: sizes, how many
    axes are a row (at least one), and the strides of each operand."""
    first = len(space) - row_axes if row_axes else len(space)
    outer = _join(space[:first], [s[:first] for s in strides])
    row = _join(space[first:], [s[first:] for s in strides])
    if not row_axes:  # the last axis is as good a row as any
        outer, row = _cut(outer)
    elif not row[0]:
        row = (1,), [(0,) for _ in strides]
    sizes = outer[0] + row[0]
    return sizes, len(row[0]), [a + b for a, b in zip(outer[1], row[1], strict=True)]


_Axes = tuple[Shape, list[Shape]]


def _join(sizes: Shape, strides: list[Shape]) -> _Axes:
    kept: list[int] = []
    moves: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        if kept and all(m[-1] == s[axis] * size for m, s in zip(moves, strides)):
            kept[-1] *= size
            for m, s in zip(moves, strides):
                m[-1] = s[axis]
            continue
        kept.append(size)
        for m, s in zip(moves, strides):
            m.append(s[axis])
    return tuple(kept), [tuple(m) for m in moves]


def _cut(axes: _Axes) -> tuple[_Axes, _Axes]:
    sizes, strides = axes
    if not sizes:
        return ((), [() for _ in strides]), ((1,), [(0,) for _ in strides])
    head = sizes[:-1], [s[:-1] for s in strides]
    return head, (sizes[-1:], [s[-1:] for s in strides])
