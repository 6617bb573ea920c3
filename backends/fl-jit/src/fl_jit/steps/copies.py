"""Concatenation and padding as copies into parts of the result, by generated kernels.

In a plan that runs once, NumPy's functions are as fast. A plan on fixed memory
(``planning.static_program``) has these as native calls among others.
"""

from __future__ import annotations

from collections.abc import Mapping

from fl_jit.kernels.codegen.axes import join_axes, letters
from fl_jit.kernels.codegen.program import Builder
from fl_jit.steps.native import NativePart, NativeStep
from fl_tensor.dtypes import DType
from fl_tensor.graph import Node, Value
from fl_tensor.graph.strides import Shape, StridedLayout, contiguous


def copies(node: Node, layouts: Mapping[Value, StridedLayout]) -> NativeStep | None:
    """The native calls of a concatenation or of a padding without gaps; None for other nodes."""
    (out,) = node.outputs
    operands = [layouts[value] for value in node.operands]
    if out.dtype.kind not in "fiu" or 0 in out.shape:
        return None
    if node.op == "concatenate":
        starts, parts = _concatenated(node), []
    elif node.op == "pad" and _only_grows(node):
        starts = [tuple(node.parameters["low"])]
        parts = [_filled(out, node.parameters["value"])]
    else:
        return None
    for value, layout, start in zip(node.operands, operands, starts, strict=True):
        if 0 not in value.shape:
            parts.append(_copied(value, layout, out, start))
    return NativeStep(parts, [(out, [])])


def _concatenated(node: Node) -> list[Shape]:
    # Where each operand begins in the result.
    axis: int = node.parameters["axis"]
    starts, at = [], 0
    for value in node.operands:
        start = [0] * len(value.shape)
        start[axis] = at
        starts.append(tuple(start))
        at += value.shape[axis]
    return starts


def _only_grows(node: Node) -> bool:
    low, high, interior = (node.parameters[name] for name in ("low", "high", "interior"))
    return min((*low, *high)) >= 0 and not any(interior)


def _copied(value: Value, layout: StridedLayout, out: Value, start: Shape) -> NativePart:
    to = contiguous(out.shape)
    offset = sum(step * i for step, i in zip(to, start, strict=True))
    sizes, row_axes, (read, write) = join_axes(value.shape, 0, [layout.strides, to])
    build = Builder(len(sizes), row_axes)
    element = build.input(value.dtype, letters(read, sizes, row_axes))
    build.output(element, _output_letters(write))
    operands = [(layout.root, layout.offset * value.dtype.itemsize)]
    operands.append((out, offset * out.dtype.itemsize))
    return _part(build, sizes, [read, write], operands)


def _filled(out: Value, number: complex) -> NativePart:
    sizes, row_axes, (write,) = join_axes(out.shape, 0, [contiguous(out.shape)])
    build = Builder(len(sizes), row_axes)
    build.output(build.constant(_of(out.dtype, number), out.dtype), _output_letters(write))
    return _part(build, sizes, [write], [(out, 0)])


def _of(dtype: DType, number: complex) -> complex:
    return number if dtype.is_floating else int(number.real)


def _output_letters(strides: Shape) -> str:
    return "s" * (len(strides) - 1) + ("c" if strides[-1] == 1 else "s")


def _part(
    build: Builder, sizes: Shape, strides: list[Shape], operands: list[tuple[Value, int]]
) -> NativePart:
    from fl_jit.kernels.codegen.kernel import Kernel

    launch = Kernel.of(build.program()).bind(sizes, strides)
    return NativePart(launch.bound(), operands)
