"""Kernels that come from outside: who computes which operation, as a whole or inside a group.

A *maker* is asked once for every node of a plan: ``maker(request)`` gives ``run``, a function of
the addresses of operands and result, or None where it has nothing for this case. Makers are asked
the latest first. ``elementwise`` is no maker: it says an operation in the instructions of
``codegen.program``, so that it becomes part of the kernel of its neighbours; ``program`` makes a
kernel of its own out of such instructions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeAlias

from fl_jit.kernels.codegen.axes import join_axes, letters, output_letters
from fl_jit.kernels.codegen.errors import ProgramError
from fl_jit.kernels.codegen.program import Builder, Program
from fl_jit.kernels.layout import Layout
from fl_tensor import roles, rules
from fl_tensor.errors import ArgumentError
from fl_tensor.graph import Node, Value
from fl_tensor.graph import strides as layout
from fl_tensor.registration import attempt, function

Shape = roles.Shape
#: ``run(*addresses)``: those of the operands, then that of the result. Called by several threads.
Run: TypeAlias = Callable[..., object]
#: ``build(b, x, ..., parameter=...)``: values of a program in, one out.
Build: TypeAlias = Callable[..., int]


class Request(NamedTuple):
    """What a kernel is to compute: the operation, how its operands lie, how its result is to lie
    (in C order), its other arguments by name. Numbers are operands without axes."""

    op: str
    operands: tuple[Layout, ...]
    result: Layout
    parameters: Mapping[str, Any]


KernelFactory: TypeAlias = Callable[[Request], "Run | None"]


class elementwise:
    """An operation whose operands broadcast, and each element of whose result depends on one
    element of each operand: ``build(b, x, ...)`` says how. ``b`` is a ``Builder``."""

    def __init__(self, build: Build) -> None:
        self.build = function("[elementwise] build", build)

    def accepts(self, node: Node) -> bool:
        """Whether the instructions exist for the dtypes of ``node``, and give its dtype."""
        builder = Builder(1)
        operands = [builder.input(v.dtype, "c") for v in node.operands]
        builder.output(self.build(builder, *operands, **node.parameters), "c")
        program = builder.program()
        return program.values[program.outputs[0].value].dtype is node.outputs[0].dtype


class program:
    """A maker: ``build(b, x, ...)`` says in the instructions of a ``Builder`` what becomes of the
    operands, broadcast to a common shape, whose last ``row_axes`` axes are a row (0: there are no
    rows). Reductions over them, ``b.reduce("sum", x)``, can be used again in the same row. The
    result is of that shape, or has one number per row, or per column, or is one.

    Gives None, so that the composition runs, without llvmlite and for arrays of nothing.
    """

    def __init__(self, build: Build, row_axes: int = 1) -> None:
        self.build = function("[program] build", build)
        self.row_axes = row_axes

    def __call__(self, request: Request) -> Run | None:
        *operands, result = (*request.operands, request.result)
        if find_spec("llvmlite") is None or 0 in (math.prod(x.shape) for x in request.operands):
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
    # What a result of that shape can be, and how it then lies over the space.
    count, outer = math.prod(shape), space[: len(space) - rows]
    row = space[len(space) - rows :]
    found = []
    if count == math.prod(space):
        found.append(("full", layout.contiguous(space)))
    if rows and count == math.prod(outer):
        found.append(("row", layout.contiguous(outer) + (0,) * rows))
    if rows and count == math.prod(row):
        found.append(("column", (0,) * len(outer) + layout.contiguous(row)))
    if count == 1:
        found.append(("all", (0,) * len(space)))
    if not found:
        raise ProgramError(f"[program] a result of shape {shape} over operands of shape {space}")
    return found


class Kernels:
    """Who computes what; not changed once made."""

    def __init__(
        self,
        makers: Mapping[str, tuple[KernelFactory, ...]] | None = None,
        inside: Mapping[str, elementwise] | None = None,
    ) -> None:
        self._makers = dict(makers or {})
        self._inside = dict(inside or {})

    def adding(self, op: str, kernel: KernelFactory | elementwise) -> Kernels:
        """With one more kernel, which is asked first."""
        if isinstance(kernel, elementwise):
            return Kernels(self._makers, {**self._inside, op: kernel})
        makers = {**self._makers, op: (kernel, *self._makers.get(op, ()))}
        return Kernels(makers, self._inside)

    def without(self, op: str, kernel: KernelFactory | elementwise) -> Kernels:
        """Without that one."""
        kept = {name: k for name, k in self._inside.items() if k is not kernel}
        left = tuple(maker for maker in self._makers.get(op, ()) if maker is not kernel)
        return Kernels({**self._makers, op: left}, kept)

    def instructions(self, node: Node) -> Build | None:
        """How a group says this node, None if it cannot."""
        found = self._inside.get(node.op)
        if found is None or not attempt(_named(node.op), found.accepts, node):
            return None
        return found.build

    def make(
        self, node: Node, places: Mapping[Value, layout.StridedLayout] | None = None
    ) -> Run | None:
        """A kernel for this node alone; operands lie as ``places`` says (default: in C order)."""
        makers = self._makers.get(node.op)
        if not makers or len(node.outputs) != 1 or "order" in node.parameters:
            return None  # results in another order of axes are for those who know of it
        request = Request(
            node.op,
            tuple([_placed(v, None if places is None else places[v]) for v in node.operands]),
            _placed(node.outputs[0], None),
            node.parameters,
        )
        for maker in makers:
            run = attempt(_named(node.op), _asked, maker, request)
            if run is not None:
                return run
        return None


def _placed(value: Value, place: layout.StridedLayout | None) -> Layout:
    strides = layout.contiguous(value.shape) if place is None else place.strides
    return Layout(value.dtype, value.shape, strides)


def _named(op: str) -> str:
    return f"kernel of {op!r}"


def _asked(maker: KernelFactory, request: Request) -> Run | None:
    run = maker(request)
    if run is not None and not callable(run):
        raise ArgumentError(
            f"its maker gave a {type(run).__name__}: expected a function of addresses, or None"
        )
    return run
