"""The type checker: from a function's source to a ``Definition``, or a KernelError.

It checks statements here, expressions in ``expressions`` and calls in ``calls``, and rebuilds the
tree with all conversions written out (see ``Definition``). A variable has one type, that of its
first value, and must have a value on every way to where it is read.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fl_tensor.kernels.calls import Calls
from fl_tensor.kernels.definition import Definition
from fl_tensor.kernels.source import Source
from fl_tensor.kernels.types import INT, ArrayType, RecordType, Scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["check"]

_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Assert: ("assert", "return a number that says what is wrong"),
    ast.Raise: ("raise", "return a number that says what is wrong"),
    ast.Try: ("try", "kernels have no exceptions"),
    ast.With: ("with", "do it where the kernel is called"),
    ast.Delete: ("del", "variables end with the kernel"),
    ast.Import: ("import", "import it at the head of the module"),
    ast.ImportFrom: ("import", "import it at the head of the module"),
    ast.FunctionDef: ("a function in a function", "make it a kernel of the module"),
    ast.ClassDef: ("a class", "define it in the module"),
    ast.Global: ("global", "pass an array with one element, and write to it"),
    ast.Nonlocal: ("nonlocal", "pass an array with one element, and write to it"),
}


def check(function: Callable[..., Any], names: dict[str, Any]) -> Definition:
    """The definition of a function. names: what annotations may mean beside its globals."""
    return Checker(Source(function, names)).definition()


class Checker(Calls):
    """Checks the statements of one function."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.parameters = source.parameters()
        self.result = source.result()
        stored = [n.id for n in ast.walk(source.tree) if isinstance(n, ast.Name) and _stores(n)]
        self.stored = {name: stored.count(name) for name in stored}
        self.arguments = {p.name: p.type for p in self.parameters}
        self.variables = {p.name: p.type for p in self.parameters if isinstance(p.type, Scalar)}
        self.assigned = set(self.variables)
        self.depth = 0
        self._loops: list[list[set[str]]] = []  # of each loop around: what is assigned at breaks

    def definition(self) -> Definition:
        """Check the body; KernelError for the first thing that is not in the subset."""
        source = self.source
        body = self.block(source.tree.body)
        if self.result is not None and self.reachable:
            self.source.error(
                source.tree, f"it can end without a result; return {self.result} at its end"
            )
        arguments = [ast.copy_location(ast.arg(p.name), source.tree) for p in self.parameters]
        tree: Any = ast.FunctionDef(
            name=source.tree.name,
            args=ast.arguments([], arguments, None, [], [], None, []),
            body=body or [ast.copy_location(ast.Pass(), source.tree)],
            decorator_list=[],
            returns=None,
            type_comment=None,
        )
        if "type_params" in ast.FunctionDef._fields:  # Python 3.12 and later
            tree.type_params = []
        return Definition(
            name=source.name,
            module=source.function.__module__,
            file=source.file,
            line=source.line,
            tree=ast.copy_location(tree, source.tree),
            parameters=self.parameters,
            result=self.result,
            callees=self.callees,
            constants=self.constants,
            written=frozenset(self.written),
            types=self.types,
        )

    # ---- statements --------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements of a block, rebuilt."""
        found: list[ast.stmt] = []
        for statement in body:
            found += [ast.copy_location(s, statement) for s in self.statement(statement)]
        return found

    def inner(self, body: Sequence[ast.stmt], node: ast.stmt) -> list[ast.stmt]:
        self.depth += 1
        found = self.block(body)
        self.depth -= 1
        return found or [ast.copy_location(ast.Pass(), node)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        kind = type(node)
        method = getattr(self, f"_{kind.__name__.lower()}", None)
        if method is not None:
            found: list[ast.stmt] = method(node)
            return found
        what, instead = _REFUSED.get(kind, (f"the statement {kind.__name__}", _STATEMENTS))
        self.source.refuse(node, what, instead)

    def _assign(self, node: ast.Assign) -> list[ast.stmt]:
        if len(node.targets) > 1:
            self.source.refuse(node, "an assignment to several targets", "write one each")
        return self.assign(node, node.targets[0], node.value)

    def _annassign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if node.value is None or not isinstance(node.target, ast.Name):
            self.source.refuse(node, "this annotation", "give the variable a value: x: float = 0")
        kind = self.source.variable_type(node.annotation)
        value = self.converted(self.expression(node.value), kind, node, f"{node.target.id}")
        return self.bind(node, node.target.id, value)

    def _augassign(self, node: ast.AugAssign) -> list[ast.stmt]:
        target: Any = copy.deepcopy(node.target)
        if any(isinstance(n, ast.Call) for n in ast.walk(target)):
            self.source.refuse(node, "a call in the index of it", "put the index in a variable")
        target.ctx = ast.Load()
        value = ast.copy_location(ast.BinOp(target, node.op, node.value), node)
        return self.assign(node, node.target, value)

    def assign(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """``target = value``, rebuilt; nothing where it gives an array another name."""
        if isinstance(target, ast.Subscript):
            index = self.element(target, ast.Store())
            array = self.type(index.value)
            assert isinstance(array, ArrayType)
            self.write(target.value)
            stored = self.converted(self.expression(value), array.element, node, "an element")
            return [ast.Assign(targets=[index], value=stored)]
        if isinstance(target, ast.Name):
            found = self.expression(value, arrays=True)
            if isinstance(self.type(found), (ArrayType, RecordType)):
                return self._alias(node, target.id, found)
            return self.bind(node, target.id, found)
        if isinstance(target, (ast.Tuple, ast.List)):
            self.source.refuse(node, "an assignment to several variables", "write one each")
        self.source.refuse(node, f"an assignment to {ast.unparse(target)}", _TARGETS)

    def bind(self, node: ast.stmt, name: str, value: ast.expr) -> list[ast.stmt]:
        """Give a variable a value."""
        kind = self.type(value)
        assert isinstance(kind, Scalar)
        if name in self.arguments and name not in self.variables or name in self.aliases:
            self.source.refuse(node, f"a second meaning of {name!r}", "take another name")
        if self.variables.setdefault(name, kind) != kind:
            had = self.variables[name]
            self.source.error(
                node,
                f"variable {name!r} is {had} and gets {kind}: a variable has one type; "
                f"{_hint(had, kind, name)}",
            )
        self.assigned.add(name)
        target = self.typed(ast.Name(name, ast.Store()), kind, node)
        return [ast.Assign(targets=[target], value=value)]

    def _alias(self, node: ast.stmt, name: str, value: ast.expr) -> list[ast.stmt]:
        if self.depth or self.stored[name] > 1 or name in self.arguments:
            self.source.refuse(
                node,
                f"the array {name!r} assigned more than once, or in a branch or loop",
                "use the parameter itself, or call a kernel with it",
            )
        self.aliases[name] = value
        return []

    def _if(self, node: ast.If) -> list[ast.stmt]:
        test = self.test(node.test)
        before, reached = set(self.assigned), self.reachable
        body = self.inner(node.body, node)
        after, ends = self.assigned, self.reachable
        self.assigned, self.reachable = before, reached
        orelse = self.inner(node.orelse, node) if node.orelse else []
        self._merge([(after, ends), (self.assigned, self.reachable)])
        return [ast.If(test=test, body=body, orelse=orelse)]

    def _merge(self, ways: Sequence[tuple[set[str], bool]]) -> None:
        """After several ways: assigned is what all of those that arrive here have assigned."""
        arriving = [assigned for assigned, reachable in ways if reachable]
        self.reachable = bool(arriving)
        self.assigned = set.intersection(*arriving) if arriving else set(self.stored)

    @contextmanager
    def _loop(self, node: ast.For | ast.While) -> Iterator[list[set[str]]]:
        if node.orelse:
            self.source.refuse(node.orelse[0], "else of a loop", "set a variable before `break`")
        breaks: list[set[str]] = []
        self._loops.append(breaks)
        yield breaks
        self._loops.pop()

    def _while(self, node: ast.While) -> list[ast.stmt]:
        test = self.test(node.test)
        before, reached = set(self.assigned), self.reachable
        with self._loop(node) as breaks:
            body = self.inner(node.body, node)
        endless = isinstance(test, ast.Constant) and test.value is True
        ways = [(found, True) for found in breaks]
        self._merge(ways if endless else [*ways, (before, reached)])
        return [ast.While(test=test, body=body, orelse=[])]

    def _for(self, node: ast.For) -> list[ast.stmt]:
        call = node.iter
        is_range = isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        if not is_range or self.meaning(call.func) is not range:  # type: ignore[attr-defined]
            self.source.refuse(
                node, f"a loop over {ast.unparse(call)}", "for i in range(...), and x[i]"
            )
        assert isinstance(call, ast.Call)
        if call.keywords or not 1 <= len(call.args) <= 3:
            self.source.error(node, "range takes one to three numbers")
        if not isinstance(node.target, ast.Name):
            self.source.refuse(node, "several loop variables", "for i in range(...), and x[i]")
        bounds = [self.integer(a, "a bound of range") for a in call.args]
        if len(bounds) == 3:
            bounds[2] = self._step(bounds[2])
        before, reached = set(self.assigned), self.reachable
        self.bind(node, node.target.id, self.typed(ast.Constant(0), INT))
        with self._loop(node) as breaks:
            body = self.inner(node.body, node)
        self._merge([(before, reached), *((found, True) for found in breaks)])
        target = self.typed(ast.Name(node.target.id, ast.Store()), INT, node)
        function = ast.copy_location(ast.Name("range", ast.Load()), node)
        loop = ast.copy_location(ast.Call(func=function, args=bounds, keywords=[]), node)
        return [ast.For(target=target, iter=loop, body=body, orelse=[], type_comment=None)]

    def _step(self, step: ast.expr) -> ast.expr:
        value = step.value if isinstance(step, ast.Constant) else None
        if isinstance(step, ast.Name):
            value = self.constants.get(step.id)
        if not isinstance(value, int) or value == 0:
            self.source.error(step, "the step of range is an integer literal or constant, not 0")
        return self.typed(ast.copy_location(ast.Constant(value), step), INT)

    def _return(self, node: ast.Return) -> list[ast.stmt]:
        value = node.value
        if isinstance(value, ast.Constant) and value.value is None:
            value = None
        if (value is None) != (self.result is None):
            said = f"-> {self.result}" if self.result else "no type of a result"
            self.source.error(node, f"the function has {said}")
        found = None
        if value is not None and self.result is not None:
            found = self.converted(self.expression(value), self.result, node, "the result")
        self.reachable, self.assigned = False, set(self.stored)
        return [ast.Return(found)]

    def _break(self, node: ast.Break) -> list[ast.stmt]:
        if self.reachable:
            self._loops[-1].append(set(self.assigned))
        self.reachable, self.assigned = False, set(self.stored)
        return [ast.Break()]

    def _continue(self, node: ast.Continue) -> list[ast.stmt]:
        self.reachable, self.assigned = False, set(self.stored)
        return [ast.Continue()]

    def _pass(self, node: ast.Pass) -> list[ast.stmt]:
        return []

    def _expr(self, node: ast.Expr) -> list[ast.stmt]:
        if isinstance(node.value, ast.Constant):
            return []  # a docstring
        if not isinstance(node.value, ast.Call):
            self.source.error(node, "this value is not used")
        return [ast.Expr(self.call(node.value, statement=True))]


_STATEMENTS = "there are assignments, if, while, for over range, break, continue, return, calls"
_TARGETS = "assign to variables and to elements of arrays"


def _stores(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _hint(had: Any, gets: Any, name: str) -> str:
    if (str(had), str(gets)) == ("int", "float"):
        return f"begin with a float ({name} = 0.0 or float(...)), or convert by int(...)"
    return f"convert by {had}(...)"
