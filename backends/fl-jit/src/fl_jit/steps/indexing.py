"""Gather, scatter and slice_update as steps of a plan.

Generated kernels gather rows of a table, and add rows to one. NumPy computes a scatter that
overwrites, sums in half precision, and scatters along other axes than the first. The range of
indices was checked when the operation was called.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Set
from typing import Any

from fl_jit.eager.array_layouts import address
from fl_jit.kernels.codegen.axes import join_axes, letters
from fl_jit.kernels.codegen.program import Builder
from fl_jit.steps.donation import Values
from fl_jit.steps.native import NativePart, NativeStep
from fl_jit.steps.views import array_of
from fl_tensor import dtypes
from fl_tensor.extend.numpy import TO_NUMPY, adapt, memory
from fl_tensor.graph import Node, Value
from fl_tensor.graph.strides import StridedLayout, contiguous

_INDICES = (dtypes.int32, dtypes.int64)


def step(node: Node, layouts: Mapping[Value, StridedLayout], eager: Any) -> Gather | Scatter | None:
    """The step of such an operation; None where the NumPy backend runs it as any other."""
    if node.op == "gather" and is_supported_gather(node, layouts):
        return Gather(node, layouts)
    if node.op == "scatter" and is_supported_sum(node, layouts):
        return AddRows(node, layouts)
    if node.op == "slice_update":
        return SliceUpdate(node, layouts, eager)
    return Scatter(node, layouts, eager) if node.op == "scatter" else None


def is_supported_gather(node: Node, layouts: Mapping[Value, StridedLayout]) -> bool:
    """Whether a kernel supports this gather: operands are arrays, with supported index dtypes."""
    table, indices = node.operands
    return (
        indices.dtype in _INDICES
        and table.dtype.kind != "c"
        and all(layouts[v].root.shape for v in node.operands)
        and not any(0 in v.shape for v in (table, *node.outputs))
    )


def is_supported_sum(node: Node, layouts: Mapping[Value, StridedLayout]) -> bool:
    """Whether a kernel supports this scatter: rows are added, in the precision of accumulation."""
    table, indices, updates = node.operands
    return (
        node.parameters["mode"] == "add"
        and node.parameters["axis"] == 0
        and indices.dtype in _INDICES
        and table.dtype not in dtypes.HALF
        and table.dtype.kind not in "bc"
        and all(layouts[v].root.shape for v in (indices, updates))
        and not any(0 in v.shape for v in (table, updates))
    )


class Gather:
    """Elements of a table at indices along one axis."""

    kind = "kernel"
    nodes: list[Node]
    dying: list[Value]
    in_place: Collection[Value] = ()

    def __init__(self, node: Node, layouts: Mapping[Value, StridedLayout]) -> None:
        from fl_jit.kernels.codegen.kernel import Kernel

        table, indices = node.operands
        (self.output,) = node.outputs
        walked: int = node.parameters["axis"]
        before, after = walked, len(table.shape) - walked - 1
        operands = [layouts[indices], layouts[table]]
        step = operands[1].strides[walked]
        strides = [
            (0,) * before + operands[0].strides + (0,) * after,
            operands[1].strides[:walked]
            + (0,) * len(indices.shape)
            + operands[1].strides[walked + 1 :],
            contiguous(self.output.shape),
        ]
        sizes, row_axes, (index, row, out) = join_axes(self.output.shape, 0, strides)
        build = Builder(len(sizes), row_axes)
        at = build.input(indices.dtype, letters(index, sizes, row_axes))
        axes = letters(row, sizes, row_axes).replace("t", "s").replace("2", "s")
        build.output(build.gather(at, table.dtype, axes), "s" * (len(sizes) - 1) + "c")
        kernel = Kernel.of(build.program())
        self.launch = kernel.bind(sizes, [index, (*row, step, table.shape[walked]), out])
        self.inputs = [(p.root, p.offset * p.root.dtype.itemsize) for p in operands]
        self.roots = [*(p.root for p in operands), self.output]

    def native(self, packed: Set[Value]) -> NativeStep:
        """The step as a call on fixed memory."""
        part = NativePart(self.launch.bound(), [*self.inputs, (self.output, 0)])
        return NativeStep([part], [(self.output, [])])

    def __call__(self, values: Values) -> None:
        made = memory.empty(self.output.shape, TO_NUMPY[self.output.dtype])
        read = [address(values[root]) + offset for root, offset in self.inputs]
        self.launch([*read, address(made)])
        values[self.output] = made


class Scatter:
    """Rows added to a table, or stored in it. A few rows need no copy of the table: it is
    overwritten where it is not shared."""

    kind = "numpy"
    nodes: list[Node]
    dying: list[Value]
    in_place: Collection[Value]

    def __init__(self, node: Node, layouts: Mapping[Value, StridedLayout], eager: Any) -> None:
        self.node, self.eager = node, eager
        self.operands = [(v, layouts[v]) for v in node.operands]
        self.roots = [layout.root for _, layout in self.operands] + list(node.outputs)
        table, (root, offset, strides) = self.operands[0]
        whole = root.shape == table.shape and not offset and strides == contiguous(table.shape)
        self.in_place_roots = [root] if whole else []
        self.in_place = node.outputs if whole else ()

    def __call__(self, values: Values) -> None:
        # The others first: a view of the table's elements holds a reference to its array.
        indices, updates = (adapt(array_of(values, v, at), v.dtype) for v, at in self.operands[1:])
        array, in_place = self._table(values)
        parameters = self.node.parameters
        made = self.eager.scattered(
            adapt(array, self.operands[0][0].dtype),
            indices,
            updates,
            parameters["axis"],
            parameters["mode"],
            in_place,
        )
        values[self.node.outputs[0]] = made.array

    def _table(self, values: Values) -> tuple[Any, bool]:
        # The array of the table, and whether it may be overwritten.
        table, layout = self.operands[0]
        free = [root for root in self.in_place_roots if root in self.dying]
        taken = values.take(free, self.node.outputs[0])
        return (array_of(values, table, layout), False) if taken is None else (taken, True)


class SliceUpdate(Scatter):
    """A slice of a table, stored as by ``Scatter``. The start is an operand for each axis."""

    def __call__(self, values: Values) -> None:
        (part, at), *starts = self.operands[1:]
        updates = adapt(array_of(values, part, at), part.dtype)
        begin = tuple([int(values[layout.root]) for _, layout in starts])
        array, in_place = self._table(values)
        table = adapt(array, self.operands[0][0].dtype)
        steps = self.node.parameters["steps"]
        made = self.eager.slice_updated(table, begin, steps, updates, in_place)
        values[self.node.outputs[0]] = made.array


class AddRows(Scatter):
    """Rows added to those of a table, sequentially, by a kernel."""

    kind = "kernel"

    def __init__(self, node: Node, layouts: Mapping[Value, StridedLayout]) -> None:
        from fl_jit.kernels.codegen.kernel import Kernel

        super().__init__(node, layouts, None)
        table, indices, updates = node.operands
        read = [layouts[indices], layouts[updates]]
        self.inputs = [(p.root, p.offset * p.root.dtype.itemsize) for p in read]
        if self.in_place_roots and self.in_place_roots[0] in [p.root for p in read]:
            self.in_place_roots, self.in_place = [], ()  # it is read while it would be written
        row = table.shape[1:]
        strides = [
            read[0].strides + (0,) * len(row),
            read[1].strides,
            (0,) * len(indices.shape) + contiguous(row),
        ]
        space, row_axes = updates.shape, len(row)
        if not row:  # rows of one number
            space, row_axes, strides = (*space, 1), 1, [(*s, 0) for s in strides]
        sizes, row_axes, (index, moves, out) = join_axes(space, row_axes, strides)
        build = Builder(len(sizes), row_axes)
        at = build.input(indices.dtype, letters(index, sizes, row_axes))
        update = build.input(updates.dtype, letters(moves, sizes, row_axes))
        axes = "." * (len(sizes) - row_axes) + "s" * (row_axes - 1) + "c"
        build.output(update, axes, at=at)
        width = math.prod(row)
        kernel = Kernel.of(build.program())
        self.launch = kernel.bind(sizes, [index, moves, (*out, width, table.shape[0])])

    def __call__(self, values: Values) -> None:
        array, in_place = self._table(values)
        if not in_place:
            array = memory.cast(array, array.dtype)
        read = [address(values[root]) + offset for root, offset in self.inputs]
        self.launch([*read, address(array)])
        values[self.node.outputs[0]] = array
