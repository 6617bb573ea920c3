"""The expressions of kernels: their types, and the tree with all conversions written out."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fl_tensor.kernels.source import MISSING, Source
from fl_tensor.kernels.types import BOOL, FLOAT, INT, ArrayType, RecordType, Scalar, Type

if TYPE_CHECKING:
    from fl_tensor.kernels.definition import Definition

__all__ = ["COMPARISONS", "MATH", "OPERATORS", "Expressions", "wrapped"]

_INTEGERS = (ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor)
_BITS = (ast.BitAnd, ast.BitOr, ast.BitXor)
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, *_INTEGERS)
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_HALF, _ALL = 1 << 63, (1 << 64) - 1
_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.List: ("a list", "pass an array, made by fl_tensor.kernels.empty"),
    ast.Tuple: ("a tuple", "use several variables"),
    ast.Dict: ("a dictionary", "pass an array"),
    ast.Set: ("a set", "pass an array"),
    ast.ListComp: ("a comprehension", "write a loop that fills an array"),
    ast.GeneratorExp: ("a comprehension", "write a loop"),
    ast.SetComp: ("a comprehension", "write a loop"),
    ast.DictComp: ("a comprehension", "write a loop"),
    ast.JoinedStr: ("a string", "return a number, and format it outside"),
    ast.Lambda: ("lambda", "write a second kernel"),
    ast.NamedExpr: (":=", "write an assignment before"),
    ast.Yield: ("yield", "write to an array"),
    ast.Await: ("await", "kernels do not wait"),
    ast.Starred: ("*", "name each argument"),
    ast.Slice: ("a slice", "pass the first index and the number of elements"),
}


def wrapped(value: int) -> int:
    """The int64 with the same last 64 bits."""
    return ((value + _HALF) & _ALL) - _HALF


class Expressions:
    """Checks the expressions of one function, see ``checker.Checker``."""

    #: The types of parameters by name, and of variables that have been seen.
    arguments: dict[str, Type]
    variables: dict[str, Scalar]
    #: How often each name is assigned in the function.
    stored: dict[str, int]
    #: The variables that have a value here.
    assigned: set[str]

    def __init__(self, source: Source) -> None:
        self.source = source
        self.types: dict[int, Type] = {}
        self.constants: dict[str, int | float] = {}
        self.callees: dict[str, Definition] = {}
        self.aliases: dict[str, ast.expr] = {}
        self.written: set[str] = set()
        self.reachable = True

    # ---- types and conversions ---------------------------------------------------------------

    def type(self, node: ast.expr) -> Type:
        return self.types[id(node)]

    def typed(self, node: Any, kind: Type, like: ast.AST | None = None) -> Any:
        """``node`` with its type noted, at the place of ``like``."""
        if like is not None:
            ast.copy_location(node, like)
        self.types[id(node)] = kind
        return node

    def converted(self, node: ast.expr, kind: Scalar, at: ast.AST, what: str) -> ast.expr:
        """``node`` as a ``kind``; only int to float and bool to numbers are converted unasked."""
        had = self.type(node)
        if had == kind:
            return node
        if (had, kind) not in ((INT, FLOAT), (BOOL, FLOAT), (BOOL, INT)):
            self.source.error(at, f"{what} is {kind} and gets {had}: convert by {kind}(...)")
        return self.conversion(node, kind)

    def conversion(self, node: ast.expr, kind: Scalar) -> ast.expr:
        """``node`` as a ``kind``, as an explicit conversion."""
        if self.type(node) == kind:
            return node
        if kind == BOOL:
            zero = self.typed(
                ast.Constant(0.0 if self.type(node) == FLOAT else 0), self.type(node), node
            )
            return self.typed(ast.Compare(node, [ast.NotEq()], [zero]), BOOL, node)
        if isinstance(node, ast.Constant):
            value = float(node.value) if kind == FLOAT else int(node.value)  # type: ignore[arg-type]
            return self.typed(ast.Constant(value), kind, node)
        function = ast.copy_location(ast.Name(str(kind), ast.Load()), node)
        return self.typed(ast.Call(function, [node], []), kind, node)

    def common(self, nodes: Sequence[ast.expr]) -> tuple[list[ast.expr], Scalar]:
        """Operands as floats if one is, else as ints."""
        kind = FLOAT if any(self.type(n) == FLOAT for n in nodes) else INT
        return [self.conversion(n, kind) for n in nodes], kind

    def test(self, node: ast.expr) -> ast.expr:
        """A condition: a number is true unless it is 0."""
        found = self.conversion(self.expression(node), BOOL)
        if isinstance(found, ast.Compare) and isinstance(found.left, ast.Constant):
            value = bool(found.left.value) if len(found.ops) == 1 else None
            if value is not None and isinstance(node, ast.Constant):  # while 1
                return self.typed(ast.Constant(value), BOOL, node)
        return found

    def integer(self, node: ast.expr, what: str) -> ast.expr:
        return self.converted(self.expression(node), INT, node, what)

    # ---- expressions -------------------------------------------------------------------------

    def expression(self, node: ast.expr, arrays: bool = False) -> ast.expr:
        """An expression rebuilt, with its type; a number unless ``arrays`` and records may be."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            what, instead = _REFUSED.get(
                type(node), (f"the expression {ast.unparse(node)}", _EXPRESSIONS)
            )
            self.source.refuse(node, what, instead)
        found: ast.expr = method(node)
        if not arrays and not isinstance(self.type(found), Scalar):
            self.source.error(
                node,
                f"{ast.unparse(node)} is {self.type(found)}, where a number is expected: take an "
                f"element x[i] or a field",
            )
        return found

    def _constant(self, node: ast.Constant) -> ast.expr:
        value = node.value
        if isinstance(value, bool):
            return self.typed(ast.Constant(value), BOOL, node)
        if isinstance(value, int):
            if value > _ALL:
                self.source.error(node, f"{value} has more than 64 bits; integers are int64")
            return self.typed(ast.Constant(wrapped(value)), INT, node)
        if isinstance(value, float):
            return self.typed(ast.Constant(value), FLOAT, node)
        self.source.refuse(node, f"the value {value!r}", "values are int, float and bool")

    def _name(self, node: ast.Name) -> ast.expr:
        name = node.id
        if name in self.aliases:
            return self._copy(self.aliases[name], node)
        if name in self.stored and name not in self.arguments:
            if name not in self.variables or name not in self.assigned:
                self.source.error(
                    node, f"variable {name!r} may have no value here; give it one before"
                )
            return self.typed(ast.Name(name, ast.Load()), self.variables[name], node)
        if name in self.arguments:
            return self.typed(ast.Name(name, ast.Load()), self.arguments[name], node)
        return self._constant_of_module(node, self.source.find(name))

    def _constant_of_module(self, node: ast.Name, value: Any) -> ast.expr:
        if value is MISSING:
            self.source.error(node, f"there is no {node.id!r}")
        if isinstance(value, bool):
            return self.typed(ast.Constant(value), BOOL, node)
        if type(value) is int:
            if not -_HALF <= value <= _ALL:
                self.source.error(node, f"{node.id} has more than 64 bits; integers are int64")
            self.constants[node.id] = wrapped(value)
            return self.typed(ast.Name(node.id, ast.Load()), INT, node)
        if type(value) is float:
            self.constants[node.id] = value
            return self.typed(ast.Name(node.id, ast.Load()), FLOAT, node)
        self.source.refuse(
            node,
            f"{node.id}, a {type(value).__name__} of the module,",
            "constants are int, float or bool; pass everything else as an argument",
        )

    def _copy(self, found: ast.expr, like: ast.AST) -> ast.expr:
        if isinstance(found, ast.Attribute):
            value = self._copy(found.value, like)
            return self.typed(ast.Attribute(value, found.attr, ast.Load()), self.type(found), like)
        assert isinstance(found, ast.Name)
        return self.typed(ast.Name(found.id, ast.Load()), self.type(found), like)

    def _attribute(self, node: ast.Attribute) -> ast.expr:
        if self.meaning(node.value) is math:
            value = getattr(math, node.attr, None)
            if not isinstance(value, float):
                self.source.refuse(node, f"math.{node.attr} as a number", MATH)
            return self.typed(ast.Constant(value), FLOAT, node)
        if isinstance(node.value, ast.Name) and not self._is_local(node.value.id):
            self.source.refuse(
                node, ast.unparse(node), "import the name itself: from module import NAME"
            )
        record = self.expression(node.value, arrays=True)
        kind = self.type(record)
        if not isinstance(kind, RecordType):
            instead = "use len(x)" if node.attr in ("size", "shape") else "only records have fields"
            self.source.refuse(node, f".{node.attr} of {kind}", instead)
        field = kind.field(node.attr)
        if field is None:
            self.source.error(
                node, f"{kind} has no field {node.attr!r}: {', '.join(n for n, _ in kind.fields)}"
            )
        return self.typed(ast.Attribute(record, node.attr, ast.Load()), field, node)

    def _subscript(self, node: ast.Subscript) -> ast.expr:
        return self.element(node, ast.Load())

    def element(self, node: ast.Subscript, context: ast.expr_context) -> ast.Subscript:
        """``x[i]``, to be read or written."""
        array = self.expression(node.value, arrays=True)
        kind = self.type(array)
        if not isinstance(kind, ArrayType):
            self.source.error(node, f"{ast.unparse(node.value)} is {kind}: only arrays have x[i]")
        if isinstance(node.slice, ast.Tuple):
            self.source.refuse(node, "x[i, j]", "arrays have one index: x[i * columns + j]")
        index = self.integer(node.slice, "an index")
        if isinstance(index, ast.Constant) and index.value < 0:  # type: ignore[operator]
            self.source.refuse(node, "a negative index", "count from the end: x[len(x) - 1]")
        found: ast.Subscript = self.typed(ast.Subscript(array, index, context), kind.element, node)
        return found

    def write(self, array: ast.expr) -> None:
        """Note that an array (as it is in the source) is written to."""
        found = self.expression(array, arrays=True)
        self.written.add(ast.unparse(found))

    def _is_local(self, name: str) -> bool:
        return name in self.arguments or name in self.stored

    def meaning(self, node: ast.expr) -> Any:
        """The object that a name outside the function, or an attribute of ``math``, stands for."""
        if isinstance(node, ast.Name) and not self._is_local(node.id):
            return self.source.find(node.id)
        if isinstance(node, ast.Attribute) and self.meaning(node.value) is math:
            return getattr(math, node.attr, MISSING)
        return MISSING

    def _unaryop(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return self.typed(ast.UnaryOp(node.op, self.test(node.operand)), BOOL, node)
        operand = node.operand
        if isinstance(node.op, ast.USub) and isinstance(operand, ast.Constant):
            if type(operand.value) in (int, float) and operand.value <= _HALF:  # type: ignore[operator]
                return self._constant(ast.copy_location(ast.Constant(-operand.value), node))  # type: ignore[operator]
        (value,), kind = self.common([self.expression(operand)])
        if isinstance(node.op, ast.UAdd):
            return value
        if isinstance(node.op, ast.Invert) and kind == FLOAT:
            self.source.error(node, "~ of a float: convert by int(...)")
        return self.typed(ast.UnaryOp(node.op, value), kind, node)

    def _binop(self, node: ast.BinOp) -> ast.expr:
        if not isinstance(node.op, OPERATORS):
            instead = "multiply, or call math.exp and math.log"
            if isinstance(node.op, ast.MatMult):
                instead = "write a loop"
            self.source.refuse(node, f"the operator of {ast.unparse(node)}", instead)
        sides = [self.expression(node.left), self.expression(node.right)]
        if isinstance(node.op, _BITS) and all(self.type(s) == BOOL for s in sides):
            return self.typed(ast.BinOp(sides[0], node.op, sides[1]), BOOL, node)
        sides, kind = self.common(sides)
        if isinstance(node.op, ast.Div):
            sides, kind = [self.conversion(s, FLOAT) for s in sides], FLOAT
        if isinstance(node.op, _INTEGERS) and kind == FLOAT:
            self.source.error(
                node, f"{ast.unparse(node)} is for ints only: convert by int(...), or divide by /"
            )
        return self.typed(ast.BinOp(sides[0], node.op, sides[1]), kind, node)

    def _boolop(self, node: ast.BoolOp) -> ast.expr:
        return self.typed(ast.BoolOp(node.op, [self.test(v) for v in node.values]), BOOL, node)

    def _compare(self, node: ast.Compare) -> ast.expr:
        for op in node.ops:
            if not isinstance(op, COMPARISONS):
                self.source.refuse(
                    node, f"the comparison {ast.unparse(node)}", "there are < <= > >= == !="
                )
        sides, _ = self.common([self.expression(n) for n in [node.left, *node.comparators]])
        return self.typed(ast.Compare(sides[0], list(node.ops), sides[1:]), BOOL, node)

    def _ifexp(self, node: ast.IfExp) -> ast.expr:
        test = self.test(node.test)
        ways = [self.expression(node.body), self.expression(node.orelse)]
        kind = BOOL
        if any(self.type(w) != BOOL for w in ways):
            ways, kind = self.common(ways)
        return self.typed(ast.IfExp(test, ways[0], ways[1]), kind, node)


_EXPRESSIONS = "there are numbers, variables, x[i], fields, operators, a if t else b, and calls"
MATH = "of math there are exp, log, log1p, sqrt and the constants"
