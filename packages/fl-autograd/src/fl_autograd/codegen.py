"""Source text helpers of ``compile.py`` and ``saved_values.py``, and compilation to functions."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fl_autograd.errors import GradError, MissingRuleError
from fl_autograd.mode import recording
from fl_autograd.node import Node
from fl_autograd.variable import Variable, wrap
from fl_tensor import ops_for
from fl_tensor.array_classes import VALUES, answer
from fl_tensor.errors import BackendError

#: Names that the generated functions use themselves.
RESERVED = frozenset(
    "self base out v parent node ins rule forward ops g saved needs joint vjp index "
    "Node Variable active recording missing_rule new ops_for wrap composition record outs "
    "VALUES expect_value".split()
)


@dataclass(frozen=True)
class Signature:
    """An operation's parameters, and which of them are arrays (``sequence``: a list of arrays)."""

    name: str
    parameters: Sequence[inspect.Parameter]
    operands: Sequence[str]
    sequence: str | None = None

    def __post_init__(self) -> None:
        if taken := sorted(RESERVED.intersection(self.names)):
            raise GradError(f"[{self.name}] a parameter cannot be called {taken[0]!r}: rename it")

    @property
    def names(self) -> list[str]:
        return [p.name for p in self.parameters]

    def optional(self, operand: str) -> bool:
        return any(p.name == operand and p.default is None for p in self.parameters)


def missing_rule(name: str, operand: str | None) -> MissingRuleError:
    what = f"operand {operand!r} has no gradient rule" if operand else "has no gradient rule"
    return MissingRuleError(
        f"[{name}] {what}: add one with fl_autograd.extend, or cut the graph here with detach() or "
        f"no_grad()"
    )


def expect_value(op: str, base: Any, out: Any) -> None:
    """Remember the class of a value; TypeError for what is none, for the front end to say which
    operation of a composition gave it."""
    try:
        answer(op, base, out)
    except BackendError as error:
        raise TypeError(str(error)) from None


def tuple_of(items: Iterable[str]) -> str:
    listed = list(items)
    return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


def node_of(op: Signature, name: str) -> str:
    return f"None if {name} is None else {name}._node" if op.optional(name) else f"{name}._node"


def any_tracked(op: Signature) -> str:
    if op.sequence:
        return f"any([v._node is not None for v in {op.sequence}])"
    parts = [
        f"({name} is not None and {name}._node is not None)"
        if op.optional(name)
        else f"{name}._node is not None"
        for name in op.operands
    ]
    return " or ".join(parts) or "False"


def backend_call(op: Signature, forward: Callable[..., Any] | None, base: str = "self.base") -> str:
    passed = []
    for name in op.names:
        if name == op.sequence:
            name = f"[v._adapter for v in {name}]"
        elif name in op.operands:
            name = (
                f"None if {name} is None else {name}._adapter"
                if op.optional(name)
                else (f"{name}._adapter")
            )
        passed.append(name)
    if forward is not None:
        return f"forward({', '.join([f'ops_for({base})', *passed])})"
    return f"ops_for({base}).{op.name}({', '.join(passed)})"


#: What the generated functions call.
SCOPE: dict[str, Any] = {
    "Node": Node,
    "Variable": Variable,
    "missing_rule": missing_rule,
    "new": object.__new__,
    "recording": recording,
    "ops_for": ops_for,
    "wrap": wrap,
    "VALUES": VALUES,
    "expect_value": expect_value,
}


def compile_method(op: Signature, body: list[str], scope: dict[str, Any]) -> Callable[..., Any]:
    parameters, defaults = ["self"], {}
    for p in op.parameters:
        if p.default is p.empty:
            parameters.append(p.name)
        else:
            parameters.append(f"{p.name}=default_{p.name}")
            defaults[f"default_{p.name}"] = p.default
    return compile_source(op.name, parameters, body, {**SCOPE, **defaults, **scope}, op.name)


def compile_source(
    name: str, parameters: list[str], body: list[str], scope: dict[str, Any], what: str
) -> Callable[..., Any]:
    source = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in body)
    filename = f"<fl_autograd {what}>"
    # Tracebacks and debuggers can show the lines.
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), scope)
    return scope[name]
