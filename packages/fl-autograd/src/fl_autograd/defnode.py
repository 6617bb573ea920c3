"""``defnode``: nodes for values that are computed outside of the tape."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from fl_autograd.errors import GradError
from fl_autograd.mode import recording
from fl_autograd.rules.table import Rule, Vjp
from fl_autograd.saved_values import parameter_names
from fl_autograd.variable import Variable, recorded, variable
from fl_tensor import Array, ops_for
from fl_tensor.arguments import SCALARS, scalar
from fl_tensor.errors import DTypeError

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def defnode(name: str, gradients: Vjp) -> Callable[..., Variable]:
    """A kind of node with any number of operands, whose value and gradient are computed by other
    means: ``record(value, operands, *saved)`` gives the value a node.

    gradients  ``gradients(ops, g, *saved)`` returns a gradient per operand, an adapter, a Tensor or
               None, with ``g``, an adapter, that of the value. Parameters after ``g`` name the
               saved values (``Node.saved_value``)

    ``value`` is an array, or a number for a result of shape () with the dtype of the first operand.
    ``operands`` are at least one array; those without a gradient have None in ``Node.ins``. Without
    any gradient, or under ``no_grad``, the result has no node.

    >>> half = defnode("half", lambda ops, g, factor: [ops.multiply(g, ops.constant(factor, g))])
    >>> y = half(0.5 * x.item(), [x], 0.5)

    Saved values have no history: a second derivative raises GradError, as do operands of another
    backend than the value's, and a number of gradients that is not that of the operands.
    """
    if not isinstance(name, str):
        raise GradError(f"[defnode] name {name!r}: expected a string")
    try:
        kinds = [p.kind for p in inspect.signature(gradients).parameters.values()]
        if len(kinds) < 2 or any(kind not in _BY_POSITION for kind in kinds):
            raise TypeError
        names = tuple(parameter_names(gradients, 2))
    except (TypeError, ValueError):
        raise GradError(
            f"[{name}] gradients: expected a function (ops, g, ...), got {gradients!r}"
        ) from None
    rule = Rule(name, {}, partial=False)
    rule.names = names
    count = len(names)

    def backward(ops: Any, g: Any, saved: Any, ins: Any) -> tuple[Any, ...]:
        if isinstance(g, Variable):
            raise GradError(
                f"[{name}] has no second derivative (jvp takes one): what its node saves has no "
                f"history. Write it with extend.defop where create_graph is needed"
            )
        found = gradients(ops, g, *saved)
        if not isinstance(found, (list, tuple)):
            raise GradError(
                f"[{name}] its gradients are a {type(found).__name__}: expected a list of one per "
                f"operand"
            )
        if len(found) != len(ins):
            raise GradError(f"[{name}] {len(found)} gradients for {len(ins)} operands")
        return tuple([of._tensor()._adapter if isinstance(of, Array) else of for of in found])

    rule.backward = backward

    def record(value: Any, operands: Sequence[Any], *saved: Any) -> Variable:
        if len(saved) != count:
            raise GradError(f"[{name}] saves {', '.join(names) or 'nothing'}: got {len(saved)}")
        if not isinstance(operands, (list, tuple)) or not operands:
            raise DTypeError(f"[{name}] operands {operands!r}: expected a sequence of arrays")
        lead = operands[0]
        base: Any = lead._backend if isinstance(lead, Array) else other(lead, None)
        ins = tuple(
            [
                x._node if x.__class__ is Variable and x._backend is base else other(x, base)
                for x in operands
            ]
        )
        if value.__class__ is float or isinstance(value, SCALARS):
            like = lead._tensor()._adapter
            adapter = ops_for(base).constant(scalar(name, value, like.dtype), like)
        else:
            other(value, base)
            adapter = value._tensor()._adapter
        if not recording() or not any(ins):
            return variable(adapter, base, None)
        return recorded(adapter, base, rule, ins, saved)

    def other(x: Any, base: Any) -> Any:
        """The node of another array on ``base``, if any. Raises for what is none."""
        if not isinstance(x, Array):
            raise DTypeError(f"[{name}] expected a Tensor or a Variable, got a {type(x).__name__}")
        if x._backend is not base:
            raise GradError(
                f"[{name}] an operand on backend {base.name!r}, another on {x._backend.name!r}"
            )
        return x._node if isinstance(x, Variable) else None

    record.__name__ = record.__qualname__ = name
    return record
