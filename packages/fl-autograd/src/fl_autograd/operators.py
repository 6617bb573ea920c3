"""Installation of the fast arithmetic operators of ``Variable``.

``install`` puts a stub in place of each method. Its first call replaces it by the function that
``tape._make_operator`` builds from the gradient rule. This is repeated when the rule is replaced.

The operators work like those of ``Tensor`` (``fl_tensor.arrays.operators``). Two variables of one
dtype and backend, or a floating variable and a float, go from the operator straight to the backend,
if no override and no recorder is active. All other calls, and those that raise, take the general
path of ``Array``: conversion, promotion, the tape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fl_autograd.variable import Variable
from fl_tensor import Array
from fl_tensor.array_classes import BINARY, KINDS, UNARY

#: Operation -> its methods, and which operand is the variable that has the method.
_METHODS: dict[str, dict[str, str]] = {
    "add": {"__add__": "x", "__radd__": "y"},
    "subtract": {"__sub__": "x", "__rsub__": "y"},
    "multiply": {"__mul__": "x", "__rmul__": "y"},
    "divide": {"__truediv__": "x", "__rtruediv__": "y"},
    "power": {"__pow__": "x", "__rpow__": "y"},
    "negative": {"__neg__": "x"},
}
_KINDS = {op: KINDS[role] for op, role in [*BINARY.values(), *UNARY.values()]}

#: ``make(operation, general, kinds, lead)`` -> the method, or ``general`` for want of a rule.
Maker = Callable[[str, Callable[..., Any], str, str], Callable[..., Any]]


def install(op: str, make: Maker) -> None:
    """Install stubs that build the methods of ``op`` when they are first called."""
    for method, lead in _METHODS.get(op, {}).items():
        setattr(Variable, method, _compile_on_first_use(op, method, lead, make))


def _compile_on_first_use(op: str, method: str, lead: str, make: Maker) -> Callable[..., Any]:
    general = getattr(Array, method)

    def first(self: Variable, *others: Any) -> Any:
        made = make(op, general, _KINDS[op], lead)
        setattr(Variable, method, made)
        return made(self, *others)

    first.__name__, first.__doc__ = method, general.__doc__
    return first
