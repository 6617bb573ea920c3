"""A kernel function under construction: its arguments, and loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import ClassVar, NamedTuple

from llvmlite import ir

from fl_jit.kernels.codegen.arg_layout import ArgLayout
from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.loops import Loops
from fl_jit.kernels.codegen.program import Program
from fl_jit.kernels.codegen.schedule import Schedule
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, Vectors, i64, pointer

#: sweep(arguments, first chunk, last chunk + 1, index of the worker)
SIGNATURE = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64])
#: Elements of a row per partial sum, and partial sums per sum of the next level. Addends and sums
#: thus remain similar in magnitude.
BLOCK, BLOCKS = 4096, 256


class Position(NamedTuple):
    """One vector of a row.

    It has the indices of the row axes before the last one, the first index of the last one, and the
    offset from the beginning of the row. Then follow the mask of valid lanes (None: all), and the
    number of the copy of the loop's body.
    """

    middle: tuple[IR, ...]
    index: IR
    linear: IR
    mask: IR | None
    copy: int


class Function(Loops):
    """A function under construction.

    Its arguments are the kernel's arguments, the range of its part of the work, and the index of
    the worker.
    """

    signature: ClassVar[IR] = SIGNATURE

    def __init__(
        self, module: IR, name: str, program: Program, plan: Schedule, target: Target, lanes: int
    ) -> None:
        self.program = program
        self.plan = plan
        made = program.instructions
        self.columns = [i for i in plan.late_reductions if made[i].parameter == "column"]
        self.totals = [i for i in plan.late_reductions if made[i].parameter == "all"]
        self.layout = ArgLayout(program)
        self.function = ir.Function(module, self.signature, name)
        self.function.attributes.add("nounwind")
        self.arguments, *self.range, self.worker = self.function.args
        self.b = Builder(self.function.append_basic_block("entry"))
        self.of = Vectors(self.b, target, lanes)
        self.args = {
            name: self.layout.load(self.b, self.arguments, name) for name in self.layout.names
        }
        self.sizes = [self.args[f"size {axis}"] for axis in range(program.rank)]
        self.input_numbers = {value: i for i, value in enumerate(program.inputs)}

    # loops

    @contextmanager
    def stretches(self, low: IR, high: IR, most: int, period: IR) -> Iterator[tuple[IR, IR]]:
        """``low`` to ``high`` in ranges of at most ``most``: begin and end of each.

        No range crosses a multiple of ``period``.
        """
        b = self.b
        with self.while_less(low, high) as (begin, following):
            full = b.sub(b.add(begin, period), b.srem(begin, period))
            end = self.minimum(self.minimum(b.add(begin, i64(most)), full), high)
            yield begin, end
            following.append(end)

    @contextmanager
    def in_blocks(
        self, low: IR, high: IR, size: int, end: Callable[[], None]
    ) -> Iterator[tuple[IR, IR]]:
        """``low`` to ``high`` in blocks: begin and end of each. ``end`` is called after each."""
        with self.loop(low, high, size) as begin:
            yield begin, self.minimum(self.b.add(begin, i64(size)), high)
            end()

    def walk(
        self,
        low: IR,
        high: IR,
        copies: int,
        body: Callable[[Position], None],
        ends: tuple[Callable[[], None], Callable[[], None]] | None = None,
    ) -> None:
        """``body`` at every vector of a row, from ``low`` to ``high`` of the last axis.

        The loop is unrolled ``copies`` times. The first of ``ends`` is called after at most
        ``BLOCK`` elements, the second after ``BLOCKS`` of these blocks.
        """
        b, axes = self.b, range(self.program.outer, self.program.rank - 1)
        with ExitStack() as stack:
            middle: list[IR] = []
            linear: IR = i64(0)
            for axis in axes:
                first, last = i64(0), self.sizes[axis]
                if ends and axis == axes[-1]:
                    first, last = stack.enter_context(self.in_blocks(first, last, BLOCKS, ends[1]))
                index = stack.enter_context(self.loop(first, last))
                middle.append(index)
                linear = b.add(b.mul(linear, self.sizes[axis]), index)
            linear = b.mul(linear, self.sizes[-1]) if middle else i64(0)
            if ends:
                if not middle:
                    blocks = self.in_blocks(low, high, BLOCK * BLOCKS, ends[1])
                    low, high = stack.enter_context(blocks)
                low, high = stack.enter_context(self.in_blocks(low, high, BLOCK, ends[0]))
            self._vectors(tuple(middle), linear, low, high, copies, body)

    def _vectors(
        self,
        middle: tuple[IR, ...],
        linear: IR,
        low: IR,
        high: IR,
        copies: int,
        body: Callable[[Position], None],
    ) -> None:
        b, lanes = self.b, self.of.lanes
        step = copies * lanes
        full_end = b.add(low, b.and_(b.sub(high, low), i64(-step)))
        with self.loop(low, full_end, step) as counter:
            index = self.opaque(counter)
            for copy in range(copies):
                start = b.add(index, i64(copy * lanes))
                body(Position(middle, start, b.add(linear, start), None, copy))
        with self.loop(full_end, high, lanes) as counter:
            index = self.opaque(counter)
            mask = self.of.first(b.sub(high, index))
            body(Position(middle, index, b.add(linear, index), mask, 0))
