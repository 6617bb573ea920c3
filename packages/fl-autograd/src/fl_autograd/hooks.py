"""Calling hooks of a node in the backward pass, and checking the gradients that they return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fl_autograd.errors import GradError
from fl_autograd.gradients import as_variable, conjugated, raw, sum_to
from fl_autograd.node import Hooks, Node
from fl_autograd.variable import Variable


def call_before(hooks: Hooks, node: Node, g: Any, create_graph: bool) -> Any:
    """The gradient of the node's result as its hooks leave it."""
    value = as_variable(conjugated(g, node.base), node.base)
    for hook in list(hooks.before.values()):
        replaced = hook(value)
        if replaced is None:
            continue
        if _describe(replaced) != _describe(value):
            raise GradError(
                f"[{node.name}] a gradient hook returned {_describe(replaced)}: expected None or "
                f"{_describe(value)}"
            )
        value = replaced
    return conjugated(value if create_graph else raw(value), node.base)


def call_after(
    hooks: Hooks,
    node: Node,
    ins: Sequence[Node | None],
    results: Sequence[Any],
    g: Any,
    ops: Any,
    create_graph: bool,
) -> Sequence[Any]:
    """The gradients of the node's operands as its hooks leave them. The hooks see what arrives at
    the operands: summed to their shapes."""

    def shown(result: Any, source: Node | None) -> Variable | None:
        if result is None or source is None:
            return None
        if result.shape != source.shape:
            result = sum_to(ops, result, source.shape, node)
        return as_variable(conjugated(result, source.base), source.base)

    values = tuple([shown(result, source) for result, source in zip(results, ins)])
    given = as_variable(conjugated(g, node.base), node.base)
    for hook in list(hooks.after.values()):
        replaced = hook(values, given)
        if replaced is None:
            continue
        if not isinstance(replaced, tuple) or _describe(replaced) != _describe(values):
            raise GradError(
                f"[{node.name}] a hook returned {_describe(replaced)}: expected None or "
                f"{_describe(values)}"
            )
        values = replaced
    left = [None if v is None else conjugated(v, v._backend) for v in values]
    return left if create_graph else [None if v is None else raw(v) for v in left]


def _describe(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple ({', '.join(map(_describe, value))})"
    return f"a Variable {value.dtype}{value.shape}" if isinstance(value, Variable) else repr(value)
