"""A second implementation of kernels, in the place of a compiler: it walks the tree of a definition
and reads memory by address, with the results of compiled code where the interpreter refuses."""

from __future__ import annotations

import ast
import ctypes
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

from fl_tensor.kernels import ArrayType, Definition, KernelCompiler, RecordType, Scalar

FLOAT = Scalar("float64")
COMPARISONS = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


def int64(value: int) -> int:
    return ctypes.c_int64(value).value


def float_quotient(x: float, y: float) -> float:
    try:
        return x / y
    except ZeroDivisionError:
        sign = math.copysign(1, x) * math.copysign(1, y)
        return math.nan if x == 0 or math.isnan(x) else sign * math.inf


class Signal(Exception):
    """break, continue or return, with a value."""


class Evaluator(KernelCompiler):
    CONTRACT = (1, 0)
    name = "evaluator"

    def compile(self, definition: Definition) -> Callable[..., Any]:
        def run(*numbers: int | float) -> Any:
            left = iter(numbers)
            return self.run(definition, [taken(p.type, left) for p in definition.parameters])

        return run

    def run(self, definition: Definition, values: list[Any]) -> Any:
        names = dict(definition.constants)
        names.update(zip((p.name for p in definition.parameters), values))
        try:
            self.block(definition, definition.tree.body, names)
        except Signal as signal:
            return signal.args[1]
        return None

    def block(self, of: Definition, body: list[ast.stmt], names: dict[str, Any]) -> None:
        for s in body:
            match s:
                case ast.Assign([ast.Name(name)], value):
                    names[name] = self.value(of, value, names)
                case ast.Assign([ast.Subscript(array, index)], value):
                    stored = self.value(of, value, names)
                    self.value(of, array, names)[self.value(of, index, names)] = stored
                case ast.If(test, body, orelse):
                    self.block(of, body if self.value(of, test, names) else orelse, names)
                case ast.While(test, body):
                    while self.value(of, test, names) and self.once(of, body, names):
                        pass
                case ast.For(ast.Name(name), ast.Call(_, bounds), body):
                    for names[name] in range(*[self.value(of, b, names) for b in bounds]):
                        if not self.once(of, body, names):
                            break
                case ast.Return(value):
                    raise Signal("return", value and self.value(of, value, names))
                case ast.Break() | ast.Continue():
                    raise Signal(type(s).__name__, None)
                case ast.Expr(value):
                    self.value(of, value, names)
                case _:
                    assert isinstance(s, ast.Pass), ast.dump(s)

    def once(self, of: Definition, body: list[ast.stmt], names: dict[str, Any]) -> bool:
        """The body of a loop; whether the loop goes on."""
        try:
            self.block(of, body, names)
        except Signal as signal:
            if signal.args[0] == "return":
                raise
            return bool(signal.args[0] == "Continue")
        return True

    def value(self, of: Definition, e: Any, names: dict[str, Any]) -> Any:
        def value(node: Any) -> Any:
            return self.value(of, node, names)

        match e:
            case ast.Constant(found):
                return found
            case ast.Name(name):
                return names[name]
            case ast.Attribute(record, field):
                return value(record)[field]
            case ast.Subscript(array, index):
                return value(array)[value(index)]
            case ast.UnaryOp(ast.Not(), x):
                return not value(x)
            case ast.UnaryOp(ast.USub(), x):
                return self.fit(of, e, -value(x))
            case ast.UnaryOp(ast.Invert(), x):
                return ~value(x)
            case ast.BinOp(x, op, y):
                return self.fit(of, e, getattr(self, type(op).__name__)(value(x), value(y)))
            case ast.BoolOp(ast.And(), parts):
                return all(map(value, parts))
            case ast.BoolOp(ast.Or(), parts):
                return any(map(value, parts))
            case ast.Compare(x, ops, rest):
                left = value(x)
                for op, node in zip(ops, rest):
                    right = value(node)
                    if not COMPARISONS[type(op)](left, right):
                        return False
                    left = right
                return True
            case ast.IfExp(test, x, y):
                return value(x) if value(test) else value(y)
            case ast.Call(ast.Attribute(_, name), [x]):
                return getattr(self, name)(value(x))
            case ast.Call(ast.Name(name), args):
                given = [value(a) for a in args]
                if name in of.callees:
                    return self.run(of.callees[name], given)
                called = {"len": len, "min": self.min, "max": self.max, "float": float}
                called |= {"int": self.truncated, "abs": abs}
                return self.fit(of, e, called[name](*given))
        raise AssertionError(ast.dump(e))

    def fit(self, of: Definition, e: ast.expr, found: Any) -> Any:
        return found if of.type_of(e) == FLOAT or found in (True, False) else int64(found)

    # ---- what a mutation may change ----------------------------------------------------------

    Add, Sub, Mult = map(staticmethod, (operator.add, operator.sub, operator.mul))
    BitAnd, BitOr, BitXor = map(staticmethod, (operator.and_, operator.or_, operator.xor))
    Div = staticmethod(float_quotient)

    def FloorDiv(self, x: int, y: int) -> int:
        return x // y if y else 0

    def Mod(self, x: int, y: int) -> int:
        return x % y if y else 0

    def LShift(self, x: int, count: int) -> int:
        return x << count if 0 <= count < 64 else 0

    def RShift(self, x: int, count: int) -> int:
        return x >> count if 0 <= count < 64 else -(x < 0)

    def truncated(self, x: Any) -> int:
        if math.isnan(x):
            return 0
        return int(max(min(x, 9223372036854774784.0), -(2.0**63))) if x < 2.0**63 else (1 << 63) - 1

    def min(self, *values: Any) -> Any:
        return min(*values)

    def max(self, *values: Any) -> Any:
        return max(*values)

    def exp(self, x: float) -> float:
        try:
            return math.exp(x)
        except OverflowError:
            return math.inf

    def log(self, x: float) -> float:
        return math.log(x) if x > 0 else math.nan if x != 0 else -math.inf

    def log1p(self, x: float) -> float:
        return math.log1p(x) if x > -1 else math.nan if x != -1 else -math.inf

    def sqrt(self, x: float) -> float:
        return math.sqrt(x) if x >= 0 else math.nan


def taken(kind: Any, left: Iterator[Any]) -> Any:
    """What a kernel gets for the next numbers."""
    if isinstance(kind, RecordType):
        return {name: taken(of, left) for name, of in kind.fields}
    if not isinstance(kind, ArrayType):
        return bool(next(left)) if kind.name == "bool" else next(left)
    address, length = next(left), next(left)
    dtype = "int64" if kind.dtype.name == "uint64" else kind.dtype.name
    element = {"float32": "float", "float64": "double"}.get(dtype, dtype)
    return (getattr(ctypes, f"c_{element}") * length).from_address(address)
