"""Statements of kernels in LLVM IR: assignments, branches and loops."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from fl_jit.kernel_language.expressions import Expressions
from fl_jit.kernels.codegen.vectors import IR, i64
from fl_tensor.kernels import Scalar

__all__ = ["Statements"]

_INT = Scalar("int64")


class Statements(Expressions):
    """Writes a function."""

    #: Of each loop around: where ``continue`` and ``break`` go.
    _loops: list[tuple[IR, IR]]

    def write(self) -> None:
        """Write the whole body."""
        self._loops = []
        self.block(self.definition.tree.body)
        if not self.b.block.is_terminated:
            if self.definition.result is None:
                self.b.ret_void()
            else:
                self.b.unreachable()  # each way through the function has returned
        self.close()

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Write statements, up to one that leaves the block."""
        for statement in body:
            name = type(statement).__name__.lower()
            method: Callable[[Any], None] = getattr(self, f"_{name}")
            method(statement)
            if self.b.block.is_terminated:
                return

    def _assign(self, node: ast.Assign) -> None:
        value = self.expression(node.value)
        (target,) = node.targets
        if isinstance(target, ast.Name):
            self.assign(target.id, self.kind(node.value), value)
            return
        assert isinstance(target, ast.Subscript)
        array = self.array_type(target.value)
        place = self.element(target)
        self.b.store(self.convert_to(array, value), place, align=array.dtype.itemsize)

    def _if(self, node: ast.If) -> None:
        b = self.b
        body, end = b.append_basic_block(), b.append_basic_block()
        orelse = b.append_basic_block() if node.orelse else end
        b.cbranch(self.expression(node.test), body, orelse)
        self._way(body, node.body, end)
        if node.orelse:
            self._way(orelse, node.orelse, end)
        b.position_at_end(end)

    def _way(self, block: IR, body: Sequence[ast.stmt], then: IR) -> None:
        self.b.position_at_end(block)
        self.block(body)
        if not self.b.block.is_terminated:
            self.b.branch(then)

    def _while(self, node: ast.While) -> None:
        b = self.b
        head, body, end = (b.append_basic_block() for _ in range(3))
        b.branch(head)
        b.position_at_end(head)
        b.cbranch(self.expression(node.test), body, end)
        self._loops.append((head, end))
        self._way(body, node.body, head)
        self._loops.pop()
        b.position_at_end(end)

    def _for(self, node: ast.For) -> None:
        assert isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
        bounds = [self.expression(a) for a in node.iter.args]
        first, last = bounds[:2] if len(bounds) > 1 else (i64(0), bounds[0])
        step = int(bounds[2].constant) if len(bounds) == 3 else 1
        b = self.b
        if abs(step) != 1:  # first + step may be beyond int64 and last: count from 0 in place of it
            first, last, origin = i64(0), self._count(first, last, step), first
        before = b.block
        head, body, following, end = (b.append_basic_block() for _ in range(4))
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(i64)
        index.add_incoming(first, before)
        if abs(step) != 1:
            more = b.icmp_unsigned("<", index, last)
            value = b.add(origin, b.mul(index, i64(step)))
        else:
            more = b.icmp_signed("<" if step == 1 else ">", index, last)
            value = index
        b.cbranch(more, body, end)
        b.position_at_end(body)
        self.assign(node.target.id, _INT, value)
        self._loops.append((following, end))
        self.block(node.body)
        self._loops.pop()
        if not b.block.is_terminated:
            b.branch(following)
        b.position_at_end(following)
        by = f"{index.get_reference()}, {step if abs(step) == 1 else 1}"
        wraps = "nsw" if abs(step) == 1 else "nuw"  # never: the index is before the last one
        index.add_incoming(b.put(i64, f"add {wraps} i64 {by}"), following)
        b.branch(head)
        b.position_at_end(end)

    def _count(self, first: IR, last: IR, step: int) -> IR:
        """How many numbers a range has, as an unsigned integer."""
        b = self.b
        low, high = (first, last) if step > 0 else (last, first)
        distance = b.sub(b.sub(high, low), i64(1))
        count = b.add(b.udiv(distance, i64(abs(step))), i64(1))
        return b.select(b.icmp_signed("<", low, high), count, i64(0))

    def _return(self, node: ast.Return) -> None:
        if node.value is None:
            self.b.ret_void()
        else:
            self.b.ret(self.expression(node.value))

    def _break(self, node: ast.Break) -> None:
        self.b.branch(self._loops[-1][1])

    def _continue(self, node: ast.Continue) -> None:
        self.b.branch(self._loops[-1][0])

    def _expr(self, node: ast.Expr) -> None:
        self.expression(node.value)

    def _pass(self, node: ast.Pass) -> None:
        pass
