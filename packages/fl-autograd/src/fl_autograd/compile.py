"""Code generation from gradient rules: the tape's method and backward function of an operation.

Recording is the hot path (graphs of millions of nodes), so each operation gets straight-line code
instead of a general interpreter. For ``multiply`` with the rule of ``rules/elementwise.py``:

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

The source is made from the signature in the contract and the parameter names of the rule. This
happens once per operation, at its first use.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from fl_autograd.codegen import (
    SCOPE,
    Signature,
    any_tracked,
    backend_call,
    compile_method,
    compile_source,
    node_of,
    tuple_of,
)
from fl_autograd.errors import GradError
from fl_autograd.rules.table import Rule, Vjp
from fl_autograd.saved_values import compile_backward, parameter_names, saved_expressions
from fl_tensor.arguments import scalar
from fl_tensor.extend import current_stack


def compile_untracked(op: Signature) -> Callable[..., Any]:
    """The method of an operation whose result never needs a gradient."""
    body = [f"return wrap({backend_call(op, None)}, self.base, {op.name!r})"]
    return compile_method(op, body, {})


def compile_composition(op: Signature, composition: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a derived operation without a rule: the backend's version when nothing is to be
    recorded, else the composition over the tape."""
    body = [
        f"if ({any_tracked(op)}) and recording():",
        f"    return composition(self, {', '.join(op.names)})",
        f"return wrap({backend_call(op, None)}, self.base, {op.name!r})",
    ]
    return compile_method(op, body, {"composition": composition})


def compile_missing(op: Signature) -> Callable[..., Any]:
    """The method of a primitive without a rule: an error once a gradient would be needed."""
    body = [
        f"if ({any_tracked(op)}) and recording():",
        f"    raise missing_rule({op.name!r}, None)",
        f"return wrap({backend_call(op, None)}, self.base, {op.name!r})",
    ]
    return compile_method(op, body, {})


def compile_rule(op: Signature, rule: Rule) -> Callable[..., Any]:
    """The recording method of an operation with a rule; also fills in ``rule.backward``."""
    unknown = [name for name in rule.operands if name not in op.operands]
    if unknown:
        raise GradError(
            f"[{op.name}] the rule differentiates {unknown[0]!r}, but the array operands are "
            f"{', '.join(op.operands)}"
        )
    kept = saved_expressions(op, rule)
    compile_backward(op, rule, [name for name, _ in kept])
    if op.sequence is not None:
        tracked = [f"ins = tuple([v._node for v in {op.sequence}])"]
        condition = "any([parent is not None for parent in ins])"
        ins = "ins"
    else:
        tracked = [f"n_{name} = {node_of(op, name)}" for name in op.operands]
        condition = " or ".join(f"n_{name} is not None" for name in rule.operands)
        ins = tuple_of(f"n_{name}" for name in rule.operands)
    body = ["base = self.base", f"out = {backend_call(op, rule.forward, 'base')}", *tracked]
    body += [f"if out.__class__ not in VALUES: expect_value({op.name!r}, base, out)"]
    body += ["v = new(Variable)", "v._adapter = out", "v._backend = base"]
    others = [name for name in op.operands if name not in rule.operands]
    if others:
        body += [f"if ({' or '.join(f'n_{name} is not None' for name in others)}) and recording():"]
        for name in others:
            body += [f"    if n_{name} is not None:"]
            body += [f"        raise missing_rule({op.name!r}, {name!r})"]
    body += [
        f"if ({condition}) and (active := recording()):",
        *_node_lines(ins, kept),
        "    if active is not True:",
        "        active.recorded(v)",
        "else:",
        "    v._node = None",
        "return v",
    ]
    return compile_method(op, body, {"rule": rule, "forward": rule.forward})


def _node_lines(ins: str, kept: list[tuple[str, str]]) -> list[str]:
    return [
        "    v._node = node = new(Node)",
        "    node.rule = rule",
        f"    node.ins = {ins}",
        f"    node.saved = {tuple_of(expression for _, expression in kept)}",
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
        "    if active is True or active is False:",
        f"        out = base.{op.name}({arguments})",
        "        if out.__class__ not in VALUES: active = None",
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
        *_node_lines(tuple_of(f"n_{name}" for name in rule.operands), saved_expressions(op, rule)),
        "else:",
        "    v._node = None",
        "return v",
    ]
    scope = {"rule": rule, "general": general, "kinds": kinds, "overrides": current_stack}
    scope["scalar"] = scalar
    return compile_source(op.name, names, body, {**SCOPE, **scope}, f"operator {general.__name__}")


def _partner_lines(op: str, name: str, lead: str) -> list[str]:
    # The other operand: a number becomes a constant of the dtype (but not on the general way, which
    # may want it in another), another class is not usual.
    return [
        f"    elif {name}.__class__ is float and dtype.is_floating:",
        f"        {name} = wrap(base.scalar({name}, dtype, {lead}.device), base, 'scalar')",
        f"    elif {name}.__class__ is int and dtype.kind != 'b':",
        f"        number = scalar({op!r}, {name}, dtype)",
        f"        {name} = wrap(base.scalar(number, dtype, {lead}.device), base, 'scalar')",
        f"    elif {name}._adapter.dtype is not dtype or {name}._backend is not base:",
        "        active = None",
        f"    else: {name}._node",
    ]


def compile_multi_output(op: Signature, rule: Rule) -> Callable[..., Any]:
    """The recording method of an operation with several results. Gradients are linear, so each
    result gets a node of its own, with the same rule told which ``result`` it is; the engine adds
    them up. Other results that a joint rule keeps are operands of the first one's node, so that
    they have their history when that gradient is differentiated."""
    parameters = [] if rule.joint is None else parameter_names(rule.joint, 3)
    kept = [name for name in parameters if name.startswith("result_")]
    others = [f"outs[{name.removeprefix('result_')}]" for name in kept]
    made = "wrap({}, self.base, " + repr(op.name) + ")"
    each = ", ".join(["self", made.format("out"), "i", *op.names])
    first = ", ".join(["self", made.format("outs[0]"), "0", *op.names, *others])
    body = [
        f"outs = list({backend_call(op, None)})",
        f"outs[1:] = [record({each}) for i, out in enumerate(outs[1:], 1)]",
        f"outs[0] = record({first})",
        "return tuple(outs)",
    ]
    return compile_method(op, body, {"record": compile_recast(op, rule, ["result"], kept)})


def compile_recast(
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


def has_multiple_outputs(rule: Rule) -> bool:
    """Whether a rule asks whose gradient it gets."""
    functions = [*rule.vjps.values(), *([rule.joint] if rule.joint else [])]
    return any("result" in inspect.signature(f).parameters for f in functions)
