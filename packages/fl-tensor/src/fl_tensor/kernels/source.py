"""The source of a kernel: its syntax tree, the names it sees, its signature."""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import typing
from collections.abc import Callable, Iterator
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from fl_tensor.errors import KernelError
from fl_tensor.kernels.definition import Parameter
from fl_tensor.kernels.types import RecordType, Scalar, Type, annotated

__all__ = ["MISSING", "Source"]

#: What ``Source.find`` gives for a name that means nothing.
MISSING: Any = object()
#: The types of NamedTuples that have been read.
_records: WeakKeyDictionary[type, RecordType] = WeakKeyDictionary()
_TYPES = "int, float, bool, Array[DTYPE], or a NamedTuple of these"


@functools.lru_cache(maxsize=4)
def _functions(text: str) -> dict[int, ast.FunctionDef]:
    """The functions of a file by their first line, that of a decorator included."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    return {min([n.lineno, *(d.lineno for d in n.decorator_list)]): n for n in _defined(tree)}


def _defined(node: ast.AST) -> Iterator[ast.FunctionDef]:
    """The functions in a block and its inner blocks."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.FunctionDef):
            yield inner
        if not isinstance(inner, ast.expr):
            yield from _defined(inner)


class Source:
    """The source of a function. KernelError if there is none, or if it is no plain function."""

    def __init__(self, function: Callable[..., Any], names: dict[str, Any]) -> None:
        """names: what annotations may mean beside the function's globals."""
        self.function = function
        self.name = function.__name__
        self.file = function.__code__.co_filename
        self.line = function.__code__.co_firstlineno
        self._names = names
        linecache.checkcache(self.file)
        text = "".join(linecache.getlines(self.file, function.__globals__))
        tree = _functions(text).get(self.line)
        if tree is None or tree.name != self.name:
            raise KernelError(
                f"[kernel {self.name}] {self.file}:{self.line}: the source of a function defined "
                f"by `def` cannot be read there; define the kernel by `def` in a file or a notebook"
            )
        self.tree = tree
        self.line = tree.lineno
        cells = zip(function.__code__.co_freevars, function.__closure__ or ())
        self._enclosing = dict(cells)

    def find(self, name: str) -> Any:
        """What a name means that is no variable of the function; MISSING if nothing."""
        if name in self._enclosing:
            try:
                return self._enclosing[name].cell_contents
            except ValueError:  # not yet assigned
                return MISSING
        return self.function.__globals__.get(name, getattr(builtins, name, MISSING))

    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters with the types of their annotations."""
        given = self.tree.args
        if given.vararg or given.kwarg or given.kwonlyargs:
            self.refuse(self.tree, "*args, **kwargs, keyword-only parameters", "name each of them")
        if given.defaults:
            self.refuse(given.defaults[0], "a default of a parameter", "give it in each call")
        found = []
        for parameter in [*given.posonlyargs, *given.args]:
            if parameter.annotation is None:
                self.refuse(parameter, f"parameter {parameter.arg!r} has no type", _annotate())
            meant = self._meaning(parameter.annotation, parameter.arg)
            found.append(Parameter(parameter.arg, self._type(meant, parameter)))
        return tuple(found)

    def result(self) -> Scalar | None:
        """The type of the result; a function without ``->`` has none."""
        if (
            self.tree.returns is None
            or isinstance(self.tree.returns, ast.Constant)
            and (self.tree.returns.value is None)
        ):
            return None
        found = annotated(self._meaning(self.tree.returns, "return"))
        if not isinstance(found, Scalar):
            self.refuse(
                self.tree.returns, "the type of the result", "return int, float, bool or None"
            )
        return found

    def variable_type(self, annotation: ast.expr) -> Scalar:
        """The type of a variable that was annotated."""
        found = annotated(self._meaning(annotation))
        if not isinstance(found, Scalar):
            self.refuse(annotation, "the type of a variable", "variables are int, float or bool")
        return found

    def refuse(self, node: ast.AST, what: str, instead: str) -> NoReturn:
        """Raise KernelError: ``what`` is not possible at ``node``, do ``instead``."""
        line = getattr(node, "lineno", self.line)
        text = linecache.getline(self.file, line).strip()
        shown = f"\n    {text}" if text else ""
        raise KernelError(
            f"[kernel {self.name}] {self.file}:{line}: {what} is not in the subset of Python that "
            f"kernels have: {instead}{shown}"
        )

    def error(self, node: ast.AST, problem: str) -> NoReturn:
        """Raise KernelError for a ``problem`` with types or names at ``node``."""
        line = getattr(node, "lineno", self.line)
        text = linecache.getline(self.file, line).strip()
        shown = f"\n    {text}" if text else ""
        raise KernelError(f"[kernel {self.name}] {self.file}:{line}: {problem}{shown}")

    def _meaning(self, annotation: ast.expr, name: str = "") -> Any:
        """What an annotation stands for; ``name`` is that of its parameter, or "return"."""
        try:
            found = self.function.__annotations__[name] if name else ast.unparse(annotation)
            for _ in range(2):  # a string may be that of a string
                if isinstance(found, str):
                    names = {n: self.find(n) for n in self._enclosing}
                    found = eval(found, self.function.__globals__, {**self._names, **names})
        except Exception as error:
            self.error(
                annotation, f"the annotation {ast.unparse(annotation)} means nothing: {error}"
            )
        return found

    def _type(self, meant: Any, node: ast.arg) -> Type:
        found = annotated(meant)
        if found is not None:
            return found
        if isinstance(meant, type) and issubclass(meant, tuple) and hasattr(meant, "_fields"):
            return self._record(meant, node)
        self.error(node, f"parameter {node.arg!r} is {meant!r}; parameters are {_TYPES}")

    def _record(self, meant: Any, node: ast.arg) -> RecordType:
        known = _records.get(meant)
        if known is not None:
            return known
        try:
            hints = typing.get_type_hints(meant, localns=dict(self._names))
        except Exception as error:
            self.error(node, f"the fields of {meant.__name__} cannot be read: {error}")
        fields = []
        for name in meant._fields:
            found = annotated(hints.get(name))
            if found is None:
                self.error(
                    node,
                    f"field {name!r} of {meant.__name__} is {hints.get(name)!r}; fields are "
                    f"int, float, bool or Array[DTYPE]",
                )
            fields.append((name, found))
        made = _records[meant] = RecordType(meant.__name__, tuple(fields))
        return made


def _annotate() -> str:
    return f"annotate it: {_TYPES}"
