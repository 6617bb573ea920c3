"""Lowering of a group of operations to the program of one kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from fl_jit.extensions import registry
from fl_jit.kernels.codegen import instructions
from fl_jit.kernels.codegen.axes import join_axes, letters, output_letters, transposed_last
from fl_jit.kernels.codegen.program import Builder, Program
from fl_jit.passes.group import Group, Member
from fl_jit.passes.reduction_forms import REDUCTIONS, reduction_form
from fl_tensor.graph import Node, Value
from fl_tensor.graph import strides as layout
from fl_tensor.graph.strides import Shape, StridedLayout


class Operand(NamedTuple):
    """An array of a kernel: elements of ``root`` from ``offset`` on, with these strides over the
    iteration space, all in elements."""

    root: Value
    offset: int
    strides: Shape


class Lowered(NamedTuple):
    """A program and the arguments of its kernel: sizes of the iteration space, input arrays,
    scalars, output arrays."""

    program: Program
    sizes: Shape
    inputs: list[Operand]
    scalars: list[Value]
    outputs: list[Operand]


def fusible(node: Node) -> bool:
    """Whether a kernel can contain the node."""
    if len(node.outputs) != 1 or any(v.dtype.kind == "c" for v in [*node.operands, *node.outputs]):
        return False
    if any(0 in v.shape for v in [*node.operands, *node.outputs]):
        return False
    if "." in node.op:
        return registry.current().kernels.instructions(node) is not None
    found = instructions.ELEMENTWISE.get(node.op)
    if found is not None:
        return node.operands[0].dtype.kind in found.kinds
    if node.op in REDUCTIONS:
        return reduction_form(node, 0) is not None
    return node.op in ("where", "cast", "random_bits", "reshape")  # a reshape that has to copy


def lower(
    group: Group,
    layouts: Mapping[Value, StridedLayout],
    live_outs: Collection[Value],
    numbers: Collection[Value],
) -> Lowered:
    """The kernel of ``group``, which writes its results in ``live_outs``. ``numbers`` are graph
    inputs that are passed as scalars."""
    return Lowering(group, layouts, live_outs, numbers).result()


class Lowering:
    """See ``lower``."""

    def __init__(
        self,
        group: Group,
        layouts: Mapping[Value, StridedLayout],
        live_outs: Collection[Value],
        numbers: Collection[Value],
    ) -> None:
        assert group.space is not None
        self.group, self.layouts, self.numbers = group, layouts, numbers
        self.space = group.space
        self.made = {m.result: m for m in group.members}
        self.written = [m for m in group.members if m.result in live_outs]

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

    # Hooks for subclasses that lower a group differently.

    def _axes(self, strides: list[Shape]) -> tuple[Shape, int, list[Shape]]:
        sizes, row_axes, strides = join_axes(self.space, self.group.row_axes, strides)
        if all(m.node.op != "random_bits" for m in self.group.members):  # it counts the rows
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
        own = registry.current().kernels.instructions(node) if "." in node.op else None
        return own(build, *operands, **node.parameters) if own else build(node.op, *operands)
