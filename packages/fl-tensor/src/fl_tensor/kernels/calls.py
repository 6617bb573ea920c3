"""The calls of kernels: other kernels, and a few functions of Python and ``math``."""

from __future__ import annotations

import ast
import math
from types import BuiltinFunctionType

from fl_tensor.kernels.definition import Definition
from fl_tensor.kernels.expressions import MATH, Expressions
from fl_tensor.kernels.types import BOOL, FLOAT, INT, ArrayType, Scalar

__all__ = ["BUILTINS", "FUNCTIONS", "Calls"]

#: The functions of ``math`` that kernels may call.
FUNCTIONS = (math.exp, math.log, math.log1p, math.sqrt)
#: Those of Python, beside ``range`` in loops.
BUILTINS = (len, min, max, abs, int, float, bool)


class Calls(Expressions):
    """Checks the calls of one function, see ``checker.Checker``."""

    def _call(self, node: ast.Call) -> ast.expr:
        return self.call(node)

    def call(self, node: ast.Call, statement: bool = False) -> ast.expr:
        """A call; of a kernel without a result only as a ``statement``."""
        called = self.meaning(node.func)
        if node.keywords:
            self.source.refuse(node, "an argument by keyword", "give the arguments in their order")
        callee = getattr(called, "definition", None)
        if isinstance(callee, Definition):
            return self._kernel(node, callee, statement)
        if isinstance(called, BuiltinFunctionType) and called in FUNCTIONS:
            if len(node.args) != 1:
                self.source.error(node, f"math.{called.__name__} takes one number")
            value = self.conversion(self.expression(node.args[0]), FLOAT)
            module = ast.copy_location(ast.Name("math", ast.Load()), node)
            function = ast.Attribute(module, called.__name__, ast.Load())
            return self.typed(ast.Call(ast.copy_location(function, node), [value], []), FLOAT, node)
        for builtin in BUILTINS:
            if called is builtin:
                return self._builtin(node, builtin.__name__)
        name = ast.unparse(node.func)
        if getattr(called, "__module__", None) == "math":
            self.source.refuse(node, name, MATH)
        if callable(called) and hasattr(called, "__code__"):
            self.source.refuse(node, f"{name}, which is no kernel,", "decorate it by @ft.kernel")
        self.source.refuse(node, f"a call of {name}", _CALLS)

    def _builtin(self, node: ast.Call, name: str) -> ast.expr:
        count = len(node.args)
        if count < 2 if name in ("min", "max") else count != 1:
            wanted = "two or more numbers" if name in ("min", "max") else "one argument"
            self.source.error(node, f"{name} takes {wanted}")
        args = [self.expression(a, arrays=name == "len") for a in node.args]
        kind: Scalar = INT
        if name == "len":
            if not isinstance(self.type(args[0]), ArrayType):
                self.source.error(node, f"len of {self.type(args[0])}: only arrays have a length")
        elif name == "bool":
            return self.conversion(args[0], BOOL)
        elif name in ("int", "float"):
            return self.conversion(args[0], INT if name == "int" else FLOAT)
        else:
            args, kind = self.common(args)
        function = ast.copy_location(ast.Name(name, ast.Load()), node)
        return self.typed(ast.Call(function, args, []), kind, node)

    def _kernel(self, node: ast.Call, callee: Definition, statement: bool) -> ast.expr:
        name = ast.unparse(node.func)
        if len(node.args) != len(callee.parameters):
            wanted = ", ".join(f"{p.name}: {p.type}" for p in callee.parameters)
            self.source.error(node, f"{name}({wanted}) gets {len(node.args)} arguments")
        if callee.result is None and not statement:
            self.source.error(node, f"{name} has no result")
        args = []
        for given, parameter in zip(node.args, callee.parameters):
            found = self.expression(given, arrays=True)
            what = f"parameter {parameter.name!r} of {name}"
            if isinstance(parameter.type, Scalar) and isinstance(self.type(found), Scalar):
                found = self.converted(found, parameter.type, node, what)
            elif self.type(found) != parameter.type:
                self.source.error(node, f"{what} is {parameter.type} and gets {self.type(found)}")
            args.append(found)
            for place in callee.written:
                head, dot, field = place.partition(".")
                if head == parameter.name:
                    self.written.add(ast.unparse(found) + dot + field)
        self.callees[name] = callee
        function = ast.copy_location(ast.Name(name, ast.Load()), node)
        return self.typed(ast.Call(function, args, []), callee.result or INT, node)


_CALLS = "kernels call kernels, len, min, max, abs, int, float, bool, and functions of math"
