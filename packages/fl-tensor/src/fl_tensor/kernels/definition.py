"""``Definition``: what a compiler gets of a kernel."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fl_tensor.kernels.types import ArrayType, RecordType, Scalar, Type

__all__ = ["Definition", "Parameter"]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel."""

    #: Its name.
    name: str
    #: Its type.
    type: Type


@dataclass(frozen=True, eq=False)
class Definition:
    """A kernel that was checked. Whatever it contains is in the subset, and every type is known.

    ``tree`` is the function with nothing left to infer: conversions are calls of ``float`` and
    ``int``, so that the operands of an operation have one type; tests are of type bool; augmented
    assignments are assignments; integer literals are within int64; there is no docstring.
    """

    #: The function's name; several kernels may have the same one.
    name: str
    #: The module that it was defined in.
    module: str
    #: The file of its source.
    file: str
    #: The line of its ``def`` in that file.
    line: int
    #: The syntax tree. Lines are those of the file.
    tree: ast.FunctionDef
    #: Its parameters, in order.
    parameters: tuple[Parameter, ...]
    #: The type of the result, None if there is none.
    result: Scalar | None
    #: The kernels that it calls, by the names that the tree has for them.
    callees: Mapping[str, Definition]
    #: The constants of its module that it reads, by name.
    constants: Mapping[str, int | float]
    #: The arrays that it or a kernel it calls writes to: "parameter", or "parameter.field".
    written: frozenset[str]
    #: Types of the tree's expressions, by the identity of the node.
    types: Mapping[int, Type] = field(repr=False)

    def type_of(self, node: ast.expr) -> Type:
        """The type of an expression of ``tree``. KeyError for a node that is none."""
        return self.types[id(node)]

    @cached_property
    def digest(self) -> str:
        """A hash of all that determines the result: the tree, types, constants and callees. Lines,
        comments and the names of files do not count."""
        parts = [
            ast.dump(self.tree),
            *(f"{p.name}: {_described(p.type)}" for p in self.parameters),
            str(self.result),
            *(f"{name} = {value!r}" for name, value in sorted(self.constants.items())),
            *(f"{name}: {callee.digest}" for name, callee in sorted(self.callees.items())),
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _described(found: Type) -> str:
    if isinstance(found, RecordType):
        fields = ", ".join(f"{name}: {_described(of)}" for name, of in found.fields)
        return f"{found.name}({fields})"
    return f"Array[{found.dtype}]" if isinstance(found, ArrayType) else found.name
