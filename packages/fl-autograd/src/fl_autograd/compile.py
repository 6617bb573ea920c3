"""From a rule to code: the tape's method and the backward function of one operation.

Recording is the hot path (graphs of millions of nodes), so each operation gets straight-line code
in place of a general interpreter: for ``multiply`` with the rule of ``rules/elementwise.py``

    def multiply(self, x, y):
        base = self.base
        out = ops_for(base).multiply(x._adapter, y._adapter)
        n_x = x._node
        n_y = y._node
        v = new(Variable); v._adapter = out; v._backend = base; v._node = None
        if (n_x is not None or n_y is not None) and (active := recording()):
            v._node = node = new(Node); node.ins = (n_x, n_y); node.shape = out.shape; ...
            node.saved = (None if n_x is None else y._adapter, None if n_y is None else x._adapter)
            if active is not True:
                active.recorded(v)
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

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from fl_autograd.errors import GradError
from fl_autograd.rules.table import Rule, Vjp, passed_on
from fl_autograd.source import (
    SCOPE,
    Signature,
    any_tracked,
    build,
    call,
    method,
    node_of,
    tuple_of,
)
from fl_tensor.arguments import scalar
from fl_tensor.stack import current


def compile_untracked(op: Signature) -> Callable[..., Any]:
    """The method of an operation whose result never needs a gradient."""
    body = [f"return wrap({call(op, None)}, self.base)"]
    return method(op, body, {})


def compile_composition(op: Signature, composition: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a derived operation without a rule: the backend's version when nothing is to be
    recorded, else the composition over the tape."""
    body = [
        f"if ({any_tracked(op)}) and recording():",
        f"    return composition(self, {', '.join(op.names)})",
        f"return wrap({call(op, None)}, self.base)",
    ]
    return method(op, body, {"composition": composition})


def compile_missing(op: Signature) -> Callable[..., Any]:
    """The method of a primitive without a rule: an error once a gradient would be needed."""
    body = [
        f"if ({any_tracked(op)}) and recording():",
        f"    raise missing({op.name!r}, None)",
        f"return wrap({call(op, None)}, self.base)",
    ]
    return method(op, body, {})


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
        condition = "any([parent is not None for parent in ins])"
        ins = "ins"
    else:
        tracked = [f"n_{name} = {node_of(op, name)}" for name in op.operands]
        condition = " or ".join(f"n_{name} is not None" for name in rule.operands)
        ins = tuple_of(f"n_{name}" for name in rule.operands)
    body = ["base = self.base", f"out = {call(op, rule.forward, 'base')}", *tracked]
    body += ["v = new(Variable)", "v._adapter = out", "v._backend = base"]
    others = [name for name in op.operands if name not in rule.operands]
    if others:
        body += [f"if ({' or '.join(f'n_{name} is not None' for name in others)}) and recording():"]
        for name in others:
            body += [f"    if n_{name} is not None:"]
            body += [f"        raise missing({op.name!r}, {name!r})"]
    body += [
        f"if ({condition}) and (active := recording()):",
        *_node_lines(ins, saved),
        "    if active is not True:",
        "        active.recorded(v)",
        "else:",
        "    v._node = None",
        "return v",
    ]
    return method(op, body, {"rule": rule, "forward": rule.forward})


def _node_lines(ins: str, saved: list[tuple[str, str]]) -> list[str]:
    return [
        "    v._node = node = new(Node)",
        "    node.rule = rule",
        f"    node.ins = {ins}",
        f"    node.saved = {tuple_of(expression for _, expression in saved)}",
        "    node.shape = out.shape",
        "    node.base = base",
        "    node.hooks = None",
    ]


def compile_operator(
    op: Signature, rule: Rule, general: Callable[..., Any], kinds: str, lead: str
) -> Callable[..., Any]:
    """The method of ``Variable`` for an operator: the short way from its operands, of which
    ``lead`` is the variable, to a result and its node; ``general`` for all that is not usual."""
    names = [lead, *(name for name in op.operands if name != lead)]
    arguments = ", ".join(f"{name}._adapter" for name in op.operands)
    unusual = [f"return general({', '.join(names)})"]
    body = [
        "try:",
        f"    dtype = {lead}._adapter.dtype",
        f"    base = {lead}._backend",
        "    active = recording()",
        "    if dtype.kind not in kinds or not base.checks_shapes or overrides() is not None:",
        "        active = None",
        *(line for name in names[1:] for line in _partner_lines(op.name, name, lead)),
        f"    if active is True or active is False: out = base.{op.name}({arguments})",
        "    else: active = None",
        "except Exception:  # the general way words the error",
        "    active = None",
        "if active is None:",
        f"    {unusual[0]}",
        *[f"n_{name} = {name}._node" for name in op.operands],
        "v = new(Variable)",
        "v._adapter = out",
        "v._backend = base",
        f"if active and ({' or '.join(f'n_{name} is not None' for name in rule.operands)}):",
        *_node_lines(tuple_of(f"n_{name}" for name in rule.operands), _saved(op, rule)),
        "else:",
        "    v._node = None",
        "return v",
    ]
    scope = {"rule": rule, "general": general, "kinds": kinds, "overrides": current}
    scope["scalar"] = scalar
    return build(op.name, names, body, {**SCOPE, **scope}, f"operator {general.__name__}")


def _partner_lines(op: str, name: str, lead: str) -> list[str]:
    # The other operand: a number becomes a constant of the dtype (but not on the general way, which
    # may want it in another), another class is not usual.
    return [
        f"    elif {name}.__class__ is float and dtype.is_floating:",
        f"        {name} = wrap(base.scalar({name}, dtype, {lead}.device), base)",
        f"    elif {name}.__class__ is int and dtype.kind != 'b':",
        f"        number = scalar({op!r}, {name}, dtype)",
        f"        {name} = wrap(base.scalar(number, dtype, {lead}.device), base)",
        f"    elif {name}._adapter.dtype is not dtype or {name}._backend is not base:",
        "        active = None",
        f"    else: {name}._node",
    ]


def compile_several(op: Signature, rule: Rule) -> Callable[..., Any]:
    """The recording method of an operation with several results. Gradients are linear, so each
    result gets a node of its own, with the same rule told which ``result`` it is; the engine adds
    them up. Other results that a joint rule keeps are operands of the first one's node, so that
    they have their history when that gradient is differentiated."""
    asked = [] if rule.joint is None else _needs(rule.joint, 3)
    kept = [name for name in asked if name.startswith("result_")]
    others = [f"outs[{name.removeprefix('result_')}]" for name in kept]
    each = ", ".join(["self", "wrap(out, self.base)", "i", *op.names])
    first = ", ".join(["self", "wrap(outs[0], self.base)", "0", *op.names, *others])
    body = [
        f"outs = list({call(op, None)})",
        f"outs[1:] = [record({each}) for i, out in enumerate(outs[1:], 1)]",
        f"outs[0] = record({first})",
        "return tuple(outs)",
    ]
    return method(op, body, {"record": compile_known(op, rule, ["result"], kept)})


def compile_known(
    op: Signature, rule: Rule, more: Sequence[str] = (), kept: Sequence[str] = ()
) -> Callable[..., Any]:
    """The method that records an operation whose result is known: the first parameter, ``made``, a
    variable; then those named in ``more``, and those of the operation; then variables, or None,
    that the rule keeps and has no gradients for."""
    lead = [_parameter(name) for name in ("made", *more)]
    parameters = [*lead, *op.parameters, *(_parameter(name, None) for name in kept)]
    joint = rule.joint
    if joint is not None and kept:
        joint = _beside(joint, len(kept))
    operands, known = (*rule.operands, *kept), lambda ops, made, *_: made
    one = Signature(op.name, parameters, ["made", *op.operands, *kept])
    return compile_rule(one, Rule(op.name, rule.vjps, joint, operands, known, rule.partial))


def _beside(joint: Vjp, count: int) -> Vjp:
    @functools.wraps(joint)
    def padded(*arguments: Any) -> tuple[Any, ...]:
        return (*joint(*arguments), *(None,) * count)

    return padded


def _parameter(name: str, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)


def has_several_results(rule: Rule) -> bool:
    """Whether a rule asks whose gradient it gets."""
    functions = [*rule.vjps.values(), *([rule.joint] if rule.joint else [])]
    return any("result" in inspect.signature(f).parameters for f in functions)


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


def _compile_backward(op: Signature, rule: Rule, saved: list[str]) -> None:
    body = [f"{tuple_of(saved)} = saved"] if saved else []
    scope: dict[str, Any] = {"joint": rule.joint}
    if rule.joint is not None:
        needs = "tuple([parent is not None for parent in ins])"
        body += [f"return joint(ops, g, {needs}, {', '.join(saved)})"]
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
