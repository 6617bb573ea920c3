"""From a rule to code: the tape's method and the backward function of one operation.

Recording is the hot path (graphs of millions of nodes), so each operation gets straight-line code
in place of a general interpreter: for ``multiply`` with the rule of ``rules/elementwise.py``

    def multiply(self, x, y):
        base = self.base
        out = ops_for(base).multiply(x._adapter, y._adapter)
        n_x = x._node
        n_y = y._node
        v = new(Variable); v._adapter = out; v._backend = base; v._node = None
        if (n_x is not None or n_y is not None) and enabled():
            v._node = node = new(Node); node.ins = (n_x, n_y); node.shape = out.shape; ...
            node.saved = (None if n_x is None else y._adapter, None if n_y is None else x._adapter)
        return v

    def backward(ops, g, saved, ins):
        y, x = saved
        n_x, n_y = ins
        return (
            None if n_x is None else vjp_x(ops, g, y),
            None if n_y is None else vjp_y(ops, g, x),
        )

The source is made from the signature in the contract and the parameter names of the rule, once per
operation, when it is first used.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fl_autograd.errors import GradError, MissingRuleError
from fl_autograd.mode import is_grad_enabled
from fl_autograd.node import Node
from fl_autograd.rules.table import Rule
from fl_autograd.variable import Variable, wrap
from fl_tensor.dispatch import ops_for


@dataclass(frozen=True)
class Signature:
    """An operation's parameters, and which of them are arrays (``sequence``: a list of arrays)."""

    name: str
    parameters: Sequence[inspect.Parameter]
    operands: Sequence[str]
    sequence: str | None = None

    @property
    def names(self) -> list[str]:
        return [p.name for p in self.parameters]

    def optional(self, operand: str) -> bool:
        return any(p.name == operand and p.default is None for p in self.parameters)


def compile_untracked(op: Signature) -> Callable[..., Any]:
    """The method of an operation whose result never needs a gradient."""
    body = [f"return wrap({_call(op, None)}, self.base)"]
    return _method(op, body, {})


def compile_composition(op: Signature, composition: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a derived operation without a rule: the backend's version when nothing is to be
    recorded, else the composition over the tape."""
    body = [
        f"if ({_any_tracked(op)}) and enabled():",
        f"    return composition(self, {', '.join(op.names)})",
        f"return wrap({_call(op, None)}, self.base)",
    ]
    return _method(op, body, {"composition": composition})


def compile_missing(op: Signature) -> Callable[..., Any]:
    """The method of a primitive without a rule: an error once a gradient would be needed."""
    body = [
        f"if ({_any_tracked(op)}) and enabled():",
        f"    raise missing({op.name!r}, None)",
        f"return wrap({_call(op, None)}, self.base)",
    ]
    return _method(op, body, {})


def compile_rule(op: Signature, rule: Rule) -> Callable[..., Any]:
    """The recording method of an operation with a rule; also fills in ``rule.backward``."""
    unknown = [name for name in rule.operands if name not in op.operands]
    if unknown:
        raise GradError(
            f"[{op.name}] the rule differentiates {unknown[0]!r}, but the array operands are "
            f"{', '.join(op.operands)}"
        )
    saved = _saved(op, rule)
    _compile_backward(op, rule, [name for name, _ in saved])
    if op.sequence is not None:
        tracked = [f"ins = tuple([v._node for v in {op.sequence}])"]
        condition = "any([n is not None for n in ins])"
        ins = "ins"
    else:
        tracked = [f"n_{name} = {_node_of(op, name)}" for name in op.operands]
        condition = " or ".join(f"n_{name} is not None" for name in rule.operands)
        ins = _tuple(f"n_{name}" for name in rule.operands)
    body = ["base = self.base", f"out = {_call(op, rule.forward, 'base')}", *tracked]
    body += ["v = new(Variable)", "v._adapter = out", "v._backend = base"]
    others = [name for name in op.operands if name not in rule.operands]
    if others:
        body += [f"if ({' or '.join(f'n_{name} is not None' for name in others)}) and enabled():"]
        for name in others:
            body += [f"    if n_{name} is not None:"]
            body += [f"        raise missing({op.name!r}, {name!r})"]
    body += [
        f"if ({condition}) and enabled():",
        "    v._node = node = new(Node)",
        "    node.rule = rule",
        f"    node.ins = {ins}",
        f"    node.saved = {_tuple(expression for _, expression in saved)}",
        "    node.shape = out.shape",
        "    node.base = base",
        "    node.hooks = None",
        "else:",
        "    v._node = None",
        "return v",
    ]
    return _method(op, body, {"rule": rule, "forward": rule.forward})


def missing(name: str, operand: str | None) -> MissingRuleError:
    what = f"operand {operand!r} has no gradient rule" if operand else "has no gradient rule"
    return MissingRuleError(
        f"[{name}] {what}: add one with fl_autograd.extend, or cut the graph here with detach() or "
        f"no_grad()"
    )


# ---- what a rule needs ---------------------------------------------------------------------------


def _needs(function: Callable[..., Any], first: int) -> list[str]:
    return [p.name for p in list(inspect.signature(function).parameters.values())[first:]]


def _functions(rule: Rule) -> list[tuple[str, Callable[..., Any], list[str]]]:
    # (operand, vjp, the names that it asks for)
    return [(name, vjp, _needs(vjp, 2)) for name, vjp in rule.vjps.items()]


def _implicit(op: Signature, operand: str, name: str) -> bool:
    # Known without being saved: the shape of an operand that has a node, the place in a sequence.
    return name == "index" if op.sequence else name == f"{operand}_shape"


def _saved(op: Signature, rule: Rule) -> list[tuple[str, str]]:
    """(name, expression that saves it) of everything the rule needs kept."""
    users: dict[str, list[str]] = {}
    if rule.joint is not None:
        for name in _needs(rule.joint, 3):
            users[name] = list(rule.operands)
    for operand, _, names in _functions(rule):
        for name in names:
            if not _implicit(op, operand, name):
                users.setdefault(name, []).append(operand)
    result = []
    for name, operands in users.items():
        expression = _keep(op, rule, name)
        is_value = name == "out" or name in op.operands  # plain arguments cost nothing to keep
        if is_value and len(operands) < len(rule.operands):
            condition = " and ".join(f"n_{operand} is None" for operand in operands)
            expression = f"(None if {condition} else {expression})"
        result.append((name, expression))
    rule.lifts = tuple(
        (i, -1 if name == "out" else _number(rule, name))
        for i, (name, _) in enumerate(result)
        if name == "out" or name in op.operands
    )
    return result


def _number(rule: Rule, name: str) -> int:
    # An operand without a gradient gets the number past the last: it has no node.
    return rule.operands.index(name) if name in rule.operands else len(rule.operands)


def _keep(op: Signature, rule: Rule, name: str) -> str:
    if name == "out":
        return "out"
    if name in op.operands:
        if op.sequence:
            raise GradError(f"[{op.name}] a rule cannot keep the arrays of a sequence, only shapes")
        return (
            f"(None if {name} is None else {name}._adapter)"
            if op.optional(name)
            else (f"{name}._adapter")
        )
    if name in op.names:
        return name
    operand, _, attribute = name.rpartition("_")
    if op.sequence == operand and attribute == "shapes":
        return f"[v._adapter.shape for v in {operand}]"
    if operand in op.operands and attribute in ("shape", "dtype"):
        return f"{operand}._adapter.{attribute}"
    known = ", ".join(["out", *op.names])
    raise GradError(
        f"[{op.name}] the rule asks for {name!r}; known are {known}, and NAME_shape or NAME_dtype "
        f"of an array"
    )


def _compile_backward(op: Signature, rule: Rule, saved: list[str]) -> None:
    body = [f"{_tuple(saved)} = saved"] if saved else []
    scope: dict[str, Any] = {"joint": rule.joint}
    if rule.joint is not None:
        needs = "tuple([n is not None for n in ins])"
        body += [f"return joint(ops, g, {needs}, {', '.join(saved)})"]
    elif op.sequence is not None:
        ((_, vjp, names),) = _functions(rule)
        scope["vjp"] = vjp
        passed = ", ".join(["ops", "g", *names])
        body += [
            f"return tuple([None if n is None else vjp({passed}) for index, n in enumerate(ins)])"
        ]
    else:
        results = []
        body += [f"{_tuple(f'n_{name}' for name in rule.operands)} = ins"]
        for operand, vjp, names in _functions(rule):
            scope[f"vjp_{operand}"] = vjp
            own = f"{operand}_shape"
            given = [f"n_{operand}.shape" if name == own else name for name in names]
            call = f"vjp_{operand}({', '.join(['ops', 'g', *given])})"
            results.append(
                call if len(rule.vjps) == 1 else f"None if n_{operand} is None else {call}"
            )
        body += [f"return {_tuple(results)}"]
    rule.backward = _build(
        "backward", ["ops", "g", "saved", "ins"], body, scope, f"{op.name} backward"
    )


# ---- source --------------------------------------------------------------------------------------


def _tuple(items: Iterable[str]) -> str:
    listed = list(items)
    return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


def _node_of(op: Signature, name: str) -> str:
    return f"None if {name} is None else {name}._node" if op.optional(name) else f"{name}._node"


def _any_tracked(op: Signature) -> str:
    if op.sequence:
        return f"any([v._node is not None for v in {op.sequence}])"
    parts = [
        f"({name} is not None and {name}._node is not None)"
        if op.optional(name)
        else f"{name}._node is not None"
        for name in op.operands
    ]
    return " or ".join(parts) or "False"


def _call(op: Signature, forward: Callable[..., Any] | None, base: str = "self.base") -> str:
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


def _method(op: Signature, body: list[str], scope: dict[str, Any]) -> Callable[..., Any]:
    parameters, defaults = ["self"], {}
    for p in op.parameters:
        if p.default is p.empty:
            parameters.append(p.name)
        else:
            parameters.append(f"{p.name}=default_{p.name}")
            defaults[f"default_{p.name}"] = p.default
    scope = {
        "Node": Node,
        "Variable": Variable,
        "enabled": is_grad_enabled,
        "missing": missing,
        "new": object.__new__,
        "ops_for": ops_for,
        "wrap": wrap,
        **defaults,
        **scope,
    }
    return _build(op.name, parameters, body, scope, op.name)


def _build(
    name: str, parameters: list[str], body: list[str], scope: dict[str, Any], what: str
) -> Callable[..., Any]:
    source = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in body)
    filename = f"<fl_autograd {what}>"
    # Tracebacks and debuggers can show the lines.
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), scope)
    return scope[name]
