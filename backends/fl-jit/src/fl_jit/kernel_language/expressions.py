"""Expressions of kernels in LLVM IR.

Evaluation is as lazy as in Python. An element outside its array may stand behind the ``and``, the
``if`` or the comparison that guards it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from fl_jit.kernel_language import arithmetic
from fl_jit.kernel_language.functions import Frame, value_type
from fl_jit.kernels.codegen.vectors import IR, call, f32, f64, i1, i64, memory_type, pointer
from fl_tensor.kernels import ArrayType, Scalar

__all__ = ["Expressions"]


class Expressions(Frame):
    """Writes expressions; each method returns the value."""

    def expression(self, node: ast.expr) -> IR:
        """The value of an expression that is a number."""
        method: Callable[[Any], IR] = getattr(self, f"_{type(node).__name__.lower()}")
        return method(node)

    def kind(self, node: ast.expr) -> Scalar:
        """The type of an expression that is a number."""
        found = self.definition.type_of(node)
        assert isinstance(found, Scalar)
        return found

    # ---- values ------------------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> IR:
        return _number(self.kind(node), node.value)

    def _name(self, node: ast.Name) -> IR:
        constants = self.definition.constants
        if node.id in constants:
            return _number(self.kind(node), constants[node.id])
        return self.variable(node.id, self.kind(node))

    def _attribute(self, node: ast.Attribute) -> IR:
        assert isinstance(node.value, ast.Name)
        kind = self.kind(node)
        if kind.name == "bool":
            return self.b.trunc(self.field(node.value.id, node.attr, i64), i1)
        return self.field(node.value.id, node.attr, value_type(kind))

    def _subscript(self, node: ast.Subscript) -> IR:
        b, dtype = self.b, self.array_type(node.value).dtype
        memory = memory_type(dtype)
        found = b.load(self.element(node), memory, align=dtype.itemsize)
        if dtype.is_floating:
            return b.fpext(found, f64)
        return b.zext(found, i64) if dtype.kind == "u" else b.sext(found, i64)

    def element(self, node: ast.Subscript) -> IR:
        """The address of ``x[i]``."""
        memory = memory_type(self.array_type(node.value).dtype)
        start = self.start(node.value)
        index = self.expression(node.slice)
        where = f"ptr {start.get_reference()}, i64 {index.get_reference()}"
        return self.b.put(pointer, f"getelementptr inbounds {memory}, {where}")

    def array_type(self, node: ast.expr) -> ArrayType:
        """The type of an expression that is an array."""
        found = self.definition.type_of(node)
        assert isinstance(found, ArrayType)
        return found

    def start(self, node: ast.expr) -> IR:
        """The address of an array."""
        if isinstance(node, ast.Name):
            return self.array(node.id)[0]
        assert isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        return self.field(node.value.id, node.attr, pointer)

    def length(self, node: ast.expr) -> IR:
        """The number of elements of an array."""
        if isinstance(node, ast.Name):
            return self.array(node.id)[1]
        assert isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        return self.field(node.value.id, node.attr, i64, second=True)

    # ---- operations --------------------------------------------------------------------------

    def _unaryop(self, node: ast.UnaryOp) -> IR:
        b, value = self.b, self.expression(node.operand)
        if isinstance(node.op, (ast.Not, ast.Invert)):
            return b.not_(value)
        return b.fneg(value) if value.type == f64 else b.neg(value)

    def _binop(self, node: ast.BinOp) -> IR:
        left = self.expression(node.left)
        return arithmetic.binary(self.b, node.op, left, self.expression(node.right))

    def _boolop(self, node: ast.BoolOp) -> IR:
        is_or = isinstance(node.op, ast.Or)
        parts = [lambda v=v: self.expression(v) for v in node.values]
        return self._until(is_or, parts, [self._is_cheap(v) for v in node.values])

    def _compare(self, node: ast.Compare) -> IR:
        sides = [node.left, *node.comparators]
        values = [self.expression(sides[0])]

        def part(k: int) -> IR:
            values.append(self.expression(sides[k + 1]))
            return arithmetic.compare(self.b, node.ops[k], values[k], values[k + 1])

        parts = [lambda k=k: part(k) for k in range(len(node.ops))]
        return self._until(False, parts, [self._is_cheap(side) for side in sides[1:]])

    def _until(self, ends: bool, parts: Sequence[Callable[[], IR]], cheap: Sequence[bool]) -> IR:
        """The bools of ``parts`` in order until one is ``ends``, which then is the result."""
        b = self.b
        found = parts[0]()
        end = None
        arriving: list[tuple[IR, IR]] = []
        for part, is_cheap in zip(parts[1:], cheap[1:]):
            if is_cheap:
                found = (b.or_ if ends else b.and_)(found, part())
                continue
            end = end or b.append_basic_block()
            more = b.append_basic_block()
            arriving.append((found, b.block))
            b.cbranch(found, *((end, more) if ends else (more, end)))
            b.position_at_end(more)
            found = part()
        if end is None:
            return found
        arriving.append((found, b.block))
        b.branch(end)
        b.position_at_end(end)
        return self._joined(i1, arriving)

    def _joined(self, kind: IR, arriving: Sequence[tuple[IR, IR]]) -> IR:
        phi = self.b.phi(kind)
        for value, block in arriving:
            phi.add_incoming(value, block)
        return phi

    def _ifexp(self, node: ast.IfExp) -> IR:
        b, test = self.b, self.expression(node.test)
        if self._is_cheap(node.body) and self._is_cheap(node.orelse):
            body = self.expression(node.body)
            return b.select(test, body, self.expression(node.orelse))
        ways = [b.append_basic_block() for _ in range(2)]
        end = b.append_basic_block()
        b.cbranch(test, *ways)
        arriving = []
        for way, value in zip(ways, (node.body, node.orelse)):
            b.position_at_end(way)
            arriving.append((self.expression(value), b.block))
            b.branch(end)
        b.position_at_end(end)
        return self._joined(value_type(self.kind(node)), arriving)

    def _is_cheap(self, node: ast.expr) -> bool:
        """Whether evaluating it costs less than a branch, and reads no element."""
        if isinstance(node, ast.Subscript):
            return False
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else "math"
            if name not in _CHEAP or name in self.callees:
                return False
        parts = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
        return all(self._is_cheap(n) for n in parts if isinstance(n, ast.expr))

    # ---- calls -------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> IR:
        if isinstance(node.func, ast.Attribute):
            return self._of_math(node.func.attr, self.expression(node.args[0]))
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name in self.callees:
            return self._of_kernel(node, name)
        b = self.b
        if name == "len":
            return self.length(node.args[0])
        values = [self.expression(a) for a in node.args]
        if name in ("min", "max"):
            combine = arithmetic.minimum if name == "min" else arithmetic.maximum
            found = values[0]
            for value in values[1:]:
                found = combine(b, found, value)
            return found
        return {"abs": self._absolute, "int": self._int, "float": self._float}[name](values[0])

    def _absolute(self, value: IR) -> IR:
        return arithmetic.absolute(self.b, value)

    def _int(self, value: IR) -> IR:
        return arithmetic.truncated(self.b, value) if value.type == f64 else self.b.zext(value, i64)

    def _float(self, value: IR) -> IR:
        b = self.b
        return b.uitofp(value, f64) if value.type == i1 else b.sitofp(value, f64)

    def _of_math(self, name: str, value: IR) -> IR:
        if name == "sqrt":
            return call(self.b, "llvm.sqrt.f64", f64, value)
        function = arithmetic.logarithmic(name, self.function.module, self.machine)
        return self.b.call(function, [value])

    def _of_kernel(self, node: ast.Call, name: str) -> IR:
        callee = self.callees[name]
        arguments: list[IR] = []
        for given, parameter in zip(node.args, callee.definition.parameters, strict=True):
            if isinstance(parameter.type, Scalar):
                arguments.append(self.expression(given))
            elif isinstance(parameter.type, ArrayType):
                arguments += [self.start(given), self.length(given)]
            else:
                assert isinstance(given, ast.Name)
                arguments.append(self.record(given.id))
        return self.b.call(callee.function, arguments)

    def convert_to(self, array: ArrayType, value: IR) -> IR:
        """A number as an element in memory: integers are cut, floats rounded."""
        if array.dtype.is_floating:
            return self.b.fptrunc(value, f32) if array.dtype.itemsize == 4 else value
        return self.b.trunc(value, memory_type(array.dtype))


def _number(kind: Scalar, value: Any) -> IR:
    if kind.name == "float64":
        return ir.Constant(f64, float(value))
    return value_type(kind)(int(value))


#: Calls that cost less than a branch.
_CHEAP = ("len", "min", "max", "abs", "int", "float")
