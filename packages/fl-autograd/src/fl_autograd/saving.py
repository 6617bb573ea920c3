"""Code for saved values: which values a rule saves, and the backward function that unpacks them.

``compile.py`` shows the code that comes of it: ``saved`` gives the expressions behind
``node.saved =``, ``compile_backward`` the function that unpacks them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from fl_autograd.errors import GradError
from fl_autograd.rules.table import Rule, passed_on
from fl_autograd.source import Signature, build, tuple_of


def needs(function: Callable[..., Any], first: int) -> list[str]:
    """The names that a function of a rule asks for, behind its ``first`` parameters."""
    return [p.name for p in list(inspect.signature(function).parameters.values())[first:]]


def _functions(rule: Rule) -> list[tuple[str, Callable[..., Any], list[str]]]:
    # (operand, vjp, the names that it asks for)
    return [(name, vjp, needs(vjp, 2)) for name, vjp in rule.vjps.items()]


def _implicit(op: Signature, operand: str, name: str) -> bool:
    # Known without being saved: the shape of an operand that has a node, the place in a sequence.
    return name == "index" if op.sequence else name == f"{operand}_shape"


def saved(op: Signature, rule: Rule) -> list[tuple[str, str]]:
    """(name, expression that saves it) of everything the rule needs kept; also fills in
    ``rule.names`` and ``rule.lifts``."""
    users: dict[str, list[str]] = {}
    if rule.joint is not None:
        for name in needs(rule.joint, 3):
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
    rule.names = tuple(name for name, _ in result)
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


def compile_backward(op: Signature, rule: Rule, kept: list[str]) -> None:
    """Fill in ``rule.backward``, which finds what was saved under the names ``kept``."""
    body = [f"{tuple_of(kept)} = saved"] if kept else []
    scope: dict[str, Any] = {"joint": rule.joint}
    if rule.joint is not None:
        wanted = "tuple([parent is not None for parent in ins])"
        body += [f"return joint(ops, g, {wanted}, {', '.join(kept)})"]
    elif op.sequence is not None:
        ((_, vjp, names),) = _functions(rule)
        scope["vjp"] = vjp
        passed = ", ".join(["ops", "g", *names])
        each = f"None if parent is None else vjp({passed})"
        body += [f"return tuple([{each} for index, parent in enumerate(ins)])"]
    else:
        results = []
        body += [f"{tuple_of(f'n_{name}' for name in rule.operands)} = ins"]
        for operand, vjp, names in _functions(rule):
            scope[f"vjp_{operand}"] = vjp
            own = f"{operand}_shape"
            given = [f"n_{operand}.shape" if name == own else name for name in names]
            value = (
                f"vjp_{operand}({', '.join(['ops', 'g', *given])})" if vjp is not passed_on else "g"
            )
            results.append(
                value
                if len(rule.vjps) == 1 or vjp is passed_on
                else f"None if n_{operand} is None else {value}"
            )
        body += [f"return {tuple_of(results)}"]
    rule.backward = build(
        "backward", ["ops", "g", "saved", "ins"], body, scope, f"{op.name} backward"
    )
