"""Kernels registered by other packages, for whole operations or for the instructions of a fused
group.

A *kernel factory* is called once for every node of a plan. ``factory(request)`` returns ``run``, a
function of the addresses of operands and result, or None if it has no kernel for this case. The
latest factory is called first.

``elementwise`` is not a factory. It describes an operation by the instructions of
``codegen.program``, so that the operation can be fused. ``program`` is a factory that compiles a
kernel from such instructions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from fl_jit.kernels.codegen.axes import join_axes, letters, output_letters
from fl_jit.kernels.codegen.errors import ProgramError
from fl_jit.kernels.codegen.program import Builder, Program
from fl_jit.kernels.layout import Layout
from fl_jit.kernels.registration import attempt, function
from fl_tensor import rules
from fl_tensor.errors import ArgumentError
from fl_tensor.extend import Shape
from fl_tensor.graph import Node, Value
from fl_tensor.graph import strides as layout

#: ``run(*addresses)``: the addresses of the operands, then that of the result. Several threads call
#: it.
Run: TypeAlias = Callable[..., object]
#: ``build(b, x, ..., parameter=...)``: operands are values of a program, and so is the result.
Build: TypeAlias = Callable[..., int]


class Request(NamedTuple):
    """The arguments of a kernel factory: the operation, the layouts of its operands and of its
    result (in C order), and its other arguments by name. Numbers are operands without axes."""

    op: str
    operands: tuple[Layout, ...]
    result: Layout
    parameters: Mapping[str, Any]


KernelFactory: TypeAlias = Callable[[Request], "Run | None"]


class elementwise:
    """An elementwise operation with broadcasting: each element of the result depends on one element
    of each operand. ``build(b, x, ...)`` defines it. ``b`` is a ``Builder``."""

    def __init__(self, build: Build) -> None:
        self.build = function("[elementwise] build", build)

    def accepts(self, node: Node) -> bool:
        """Whether the instructions exist for the dtypes of ``node``, and have its dtype as
        result."""
        builder = Builder(1)
        operands = [builder.input(v.dtype, "c") for v in node.operands]
        builder.output(self.build(builder, *operands, **node.parameters), "c")
        program = builder.program()
        return program.values[program.outputs[0].value].dtype is node.outputs[0].dtype


class program:
    """A kernel factory of a program: ``build(b, x, ...)`` defines it by the instructions of a
    ``Builder``.

    Operands are broadcast to a common shape, whose last ``row_axes`` axes are a row (0: there are
    no rows). Reductions over them, ``b.reduce("sum", x)``, can be used in the same row. The result
    has that shape, or one number per row, or per column, or is one number.

    Returns None for empty arrays, so that the composition runs.
    """

    def __init__(self, build: Build, row_axes: int = 1) -> None:
        self.build = function("[program] build", build)
        self.row_axes = row_axes

    def __call__(self, request: Request) -> Run | None:
        *operands, result = (*request.operands, request.result)
        if 0 in (math.prod(x.shape) for x in request.operands):
            return None
        space: Shape = ()
        for x in operands:
            space = rules.broadcast(request.op, space, x.shape)
        rows = min(self.row_axes, len(space))
        for form, strides in _forms(space, rows, result.shape):
            try:
                return self._bound(request, space, rows, form, strides)
            except ProgramError as error:
                refused = error
        raise refused

    def _bound(self, request: Request, space: Shape, rows: int, form: str, result: Shape) -> Run:
        from fl_jit.kernels.codegen.kernel import Kernel

        strides = [layout.broadcast(x.shape, x.strides or (), space) for x in request.operands]
        sizes, row_axes, strides = join_axes(space, rows, [*strides, result])
        builder = Builder(len(sizes), row_axes)
        operands = [
            builder.input(x.dtype, letters(s, sizes, row_axes))
            for x, s in zip(request.operands, strides)
        ]
        value = self.build(builder, *operands, **request.parameters)
        builder.output(value, output_letters(form, len(sizes), row_axes))
        made: Program = builder.program()
        if made.values[value].dtype is not request.result.dtype:
            raise ProgramError(
                f"[{request.op}] the program gives {made.values[value].dtype}: expected "
                f"{request.result.dtype}"
            )
        launch = Kernel.of(made).bind(sizes, strides)
        return lambda *addresses: launch(addresses)


def _forms(space: Shape, rows: int, shape: Shape) -> list[tuple[str, Shape]]:
    # The forms that a result of that shape can have, and its strides over the space.
    count, outer = math.prod(shape), space[: len(space) - rows]
    row = space[len(space) - rows :]
    forms = []
    if count == math.prod(space):
        forms.append(("full", layout.contiguous(space)))
    if rows and count == math.prod(outer):
        forms.append(("row", layout.contiguous(outer) + (0,) * rows))
    if rows and count == math.prod(row):
        forms.append(("column", (0,) * len(outer) + layout.contiguous(row)))
    if count == 1:
        forms.append(("all", (0,) * len(space)))
    if not forms:
        raise ProgramError(f"[program] a result of shape {shape} over operands of shape {space}")
    return forms


class Kernels:
    """The registered kernels by operation. Immutable."""

    def __init__(
        self,
        factories: Mapping[str, tuple[KernelFactory, ...]] | None = None,
        fused: Mapping[str, elementwise] | None = None,
    ) -> None:
        self._factories = dict(factories or {})
        self._fused = dict(fused or {})

    def adding(self, op: str, kernel: KernelFactory | elementwise) -> Kernels:
        """A copy with one more kernel, which is tried first."""
        if isinstance(kernel, elementwise):
            return Kernels(self._factories, {**self._fused, op: kernel})
        factories = {**self._factories, op: (kernel, *self._factories.get(op, ()))}
        return Kernels(factories, self._fused)

    def without(self, op: str, kernel: KernelFactory | elementwise) -> Kernels:
        """A copy without that kernel."""
        fused = {name: k for name, k in self._fused.items() if k is not kernel}
        factories = tuple(f for f in self._factories.get(op, ()) if f is not kernel)
        return Kernels({**self._factories, op: factories}, fused)

    def instructions(self, node: Node) -> Build | None:
        """The instructions of a node in a fused group, or None."""
        registered = self._fused.get(node.op)
        if registered is None or not attempt(_named(node.op), registered.accepts, node):
            return None
        return registered.build

    def make(
        self, node: Node, layouts: Mapping[Value, layout.StridedLayout] | None = None
    ) -> Run | None:
        """A kernel for this node alone. ``layouts`` has the layouts of operands (default: C
        order)."""
        factories = self._factories.get(node.op)
        if not factories or len(node.outputs) != 1 or "order" in node.parameters:
            return None  # kernel factories do not know other axis orders
        request = Request(
            node.op,
            tuple([_layout_of(v, None if layouts is None else layouts[v]) for v in node.operands]),
            _layout_of(node.outputs[0], None),
            node.parameters,
        )
        for factory in factories:
            run = attempt(_named(node.op), _called, factory, request)
            if run is not None:
                return run
        return None


def _layout_of(value: Value, strided: layout.StridedLayout | None) -> Layout:
    strides = layout.contiguous(value.shape) if strided is None else strided.strides
    return Layout(value.dtype, value.shape, strides)


def _named(op: str) -> str:
    return f"kernel of {op!r}"


def _called(factory: KernelFactory, request: Request) -> Run | None:
    run = factory(request)
    if run is not None and not callable(run):
        raise ArgumentError(
            f"its factory gave a {type(run).__name__}: expected a function of addresses, or None"
        )
    return run
