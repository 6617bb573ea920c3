"""Pooling and its gradients as steps of a plan, by generated kernels.

A kernel computes the elements of a box (``windows.py``). It reduces over the positions of the
window in C order, as the compositions in ``fl_tensor.derived`` do: results are equal bit for bit.
Gradients take two passes. The first one computes the contribution of each window: the position of
its maximum, or its share of the mean. The second one sums, for each element of the image, over the
windows that contain it.

Images may have any axis order. With channels last a kernel runs along the channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import NamedTuple, TypeAlias

from fl_jit.eager.array_layouts import address
from fl_jit.kernels.codegen.axes import join_axes, letters
from fl_jit.kernels.codegen.program import Builder
from fl_jit.steps import window_reductions
from fl_jit.steps.donation import Values
from fl_jit.steps.native import NativePart, NativeStep
from fl_jit.steps.windows import Box, Windows
from fl_tensor import CPU, dtypes
from fl_tensor.dtypes import DType
from fl_tensor.extend.numpy import TO_NUMPY, memory
from fl_tensor.graph import Node, Value
from fl_tensor.graph.strides import Shape, StridedLayout, contiguous

#: Positions of a window beyond which the composition runs.
MAX_WINDOW_POSITIONS = 64


class Strided(NamedTuple):
    """An array: its dtype and its strides over (batch, channels, *spatial)."""

    dtype: DType
    strides: Shape

    def offset(self, index: Shape) -> int:
        """The byte offset of the element at ``index`` of the spatial axes."""
        elements = sum(s * i for s, i in zip(self.strides[2:], index, strict=True))
        return elements * self.dtype.itemsize

    def with_step(self, step: Shape) -> Shape:
        """The strides of every ``step``-th element of the spatial axes."""
        return self.strides[:2] + tuple(s * k for s, k in zip(self.strides[2:], step, strict=True))


def step(node: Node, layouts: Mapping[Value, StridedLayout]) -> Pool | None:
    """The step that computes ``node``. None for other operations, non-floating images and larger
    windows."""
    if node.op not in _PASSES:
        return None
    values = (*node.operands, *node.outputs)
    suits = (
        node.outputs[0].dtype in (dtypes.float32, dtypes.float64)
        and math.prod(node.parameters["window"]) <= MAX_WINDOW_POSITIONS
        and all(layouts[v].root.shape for v in node.operands)
        and not any(0 in v.shape for v in values)
    )
    return Pool(node, layouts) if suits else None


class Pool:
    """A pooling or the gradient of one."""

    kind = "kernel"
    nodes: list[Node]
    dying: list[Value]
    in_place: Collection[Value] = ()

    def __init__(self, node: Node, layouts: Mapping[Value, StridedLayout]) -> None:
        operands = [layouts[v] for v in node.operands]
        self.inputs = [(p.root, p.offset * p.root.dtype.itemsize) for p in operands]
        (self.output,) = node.outputs
        self.roots = [*(p.root for p in operands), self.output]
        # The memory order of the axes of the result.
        order = node.parameters.get("order", tuple(range(len(self.output.shape))))
        dense = contiguous(self.output.shape)
        shape, strides = (
            tuple(memory_strides[order.index(axis)] for axis in range(len(order)))
            for memory_strides in (self.output.shape, dense)
        )
        arrays = [Strided(self.output.dtype, strides)]
        arrays += [
            Strided(v.dtype, p.strides) for v, p in zip(node.operands, operands, strict=True)
        ]
        self.passes, self.intermediates = _PASSES[node.op](node, shape, arrays)

    def __call__(self, values: Values) -> None:
        result = memory.empty(self.output.shape, TO_NUMPY[self.output.dtype])
        bases = [address(result), *(address(values[root]) + at for root, at in self.inputs)]
        arrays = [memory.empty(shape, TO_NUMPY[dtype]) for shape, dtype in self.intermediates]
        bases += map(address, arrays)
        for run in self.passes:
            run(bases)
        values[self.output] = result

    def native(self, packed: Set[Value]) -> NativeStep:
        """The step as calls on fixed memory."""
        made = [Value(-1, shape, dtype, CPU) for shape, dtype in self.intermediates]
        bases = [(self.output, 0), *self.inputs, *((value, 0) for value in made)]
        parts = []
        for each in self.passes:
            for launch, offsets, scalars in each.calls:
                operands = [(bases[i][0], bases[i][1] + offset) for i, offset in offsets]
                parts.append(NativePart(launch.bound(), operands, [], list(scalars)))
        return NativeStep(parts, [(self.output, []), *((value, []) for value in made)], made)


class Pass:
    """A pass over boxes, with a kernel for each. It writes ``arrays[out]``. Each element depends on
    the same element of ``arrays[i]``, i in ``own``, and on those at the window positions of
    ``arrays[i]``, i in ``windowed``."""

    def __init__(
        self,
        boxes: list[Box],
        lead: Shape,
        arrays: Sequence[Strided],
        out: int,
        own: Sequence[int],
        windowed: Sequence[int],
        reduction: window_reductions.Reduction,
    ) -> None:
        from fl_jit.kernels.codegen.kernel import Kernel

        self.calls = []
        for box in boxes:
            read = [(i, box.start, box.step) for i in own]
            read += [(i, start, box.other_step) for start in box.other_starts for i in windowed]
            operands = [*read, (out, box.start, box.step)]
            strides = [arrays[i].with_step(step) for i, _, step in operands]
            space, strides = _in_order((*lead, *box.extent), strides, arrays[out].strides)
            sizes, row_axes, strides = join_axes(space, 0, strides)
            build = Builder(len(sizes), row_axes)
            inputs = [
                build.input(arrays[i].dtype, letters(s, sizes, row_axes))
                for (i, _, _), s in zip(read, strides)
            ]
            own_inputs, others, count = inputs[: len(own)], inputs[len(own) :], len(windowed)
            by_position = [others[k : k + count] for k in range(0, len(others), max(count, 1))]
            value, scalars = reduction(build, own_inputs, by_position, box)
            last = "c" if strides[-1][-1] == 1 else "s"
            build.output(value, "s" * (len(sizes) - 1) + last)
            launch = Kernel.of(build.program()).bind(sizes, strides)
            offsets = [(i, arrays[i].offset(start)) for i, start, _ in operands]
            self.calls.append((launch, offsets, scalars))

    def __call__(self, bases: Sequence[int]) -> None:
        for launch, offsets, scalars in self.calls:
            launch([bases[i] + offset for i, offset in offsets], scalars)


def _in_order(
    space: Shape, strides: list[Shape], memory_strides: Shape
) -> tuple[Shape, list[Shape]]:
    # The axes in the memory order of the array that is written.
    order = _order(memory_strides)
    permuted = [tuple(s[axis] for axis in order) for s in strides]
    return tuple(space[axis] for axis in order), permuted


def _order(strides: Shape) -> list[int]:
    return sorted(range(len(strides)), key=lambda axis: -abs(strides[axis]))


Passes: TypeAlias = tuple[list[Pass], list[tuple[Shape, DType]]]


def _windows(node: Node, image: Shape, pooled: Shape) -> Windows:
    window, stride, padding = (node.parameters[key] for key in ("window", "stride", "padding"))
    return Windows(image, pooled, window, stride, padding)


def _inside(node: Node) -> bool:
    # Whether a mean excludes padding.
    return not node.parameters["count_include_pad"]


def _forward(node: Node, shape: Shape, arrays: list[Strided]) -> Passes:
    windows = _windows(node, node.operands[0].shape, shape)
    dtype = arrays[0].dtype
    reduction = (
        window_reductions.maximum(dtype)
        if node.op == "max_pool"
        else window_reductions.mean(dtype, _inside(node))
    )
    return [Pass(windows.of_pooled(), shape[:2], arrays, 0, (), (1,), reduction)], []


def _max_gradient(node: Node, shape: Shape, arrays: list[Strided]) -> Passes:
    pooled, dtype = node.operands[0].shape, arrays[0].dtype
    windows = _windows(node, shape, pooled)
    arrays = [*arrays, Strided(dtypes.int8, _like(pooled, arrays[1]))]
    return [
        Pass(
            windows.of_pooled(),
            shape[:2],
            arrays,
            3,
            (),
            (2,),
            window_reductions.argmax(dtype),
        ),
        Pass(
            windows.of_image(),
            shape[:2],
            arrays,
            0,
            (),
            (1, 3),
            window_reductions.sum_where_argmax(dtype),
        ),
    ], [(pooled, dtypes.int8)]


def _avg_gradient(node: Node, shape: Shape, arrays: list[Strided]) -> Passes:
    pooled, dtype = node.operands[0].shape, arrays[0].dtype
    windows = _windows(node, shape, pooled)
    arrays = [*arrays, Strided(dtype, _like(pooled, arrays[1]))]
    return [
        Pass(
            windows.of_pooled(),
            shape[:2],
            arrays,
            2,
            (1,),
            (),
            window_reductions.mean_gradient(dtype, _inside(node)),
        ),
        Pass(
            windows.of_image(),
            shape[:2],
            arrays,
            0,
            (),
            (2,),
            window_reductions.sum_over_windows(dtype),
        ),
    ], [(pooled, dtype)]


def _like(shape: Shape, array: Strided) -> Shape:
    # Dense strides of ``shape``, with the axes in the memory order of ``array``.
    order = _order(array.strides)
    dense = contiguous([shape[axis] for axis in order])
    return tuple(dense[order.index(axis)] for axis in range(len(shape)))


_PASSES: dict[str, Callable[[Node, Shape, list[Strided]], Passes]] = {
    "max_pool": _forward,
    "avg_pool": _forward,
    "max_pool_gradient": _max_gradient,
    "avg_pool_gradient": _avg_gradient,
}
