"""In-place operators (``x += y``) on variables.

A leaf that requires a gradient is updated in place, as in PyTorch; this is allowed only while
nothing is recorded. For other variables Python binds the name to the result of ``x + y``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from fl_autograd.errors import GradError
from fl_autograd.mode import is_grad_enabled
from fl_tensor.errors import DTypeError, ShapeError

if TYPE_CHECKING:
    from fl_autograd.variable import Variable

Function = Callable[[Any, Any], Any]

#: Python's name -> the operator as it is written, and the function that computes the new value.
OPERATORS: dict[str, tuple[str, Function]] = {
    "__iadd__": ("+=", operator.add),
    "__isub__": ("-=", operator.sub),
    "__imul__": ("*=", operator.mul),
    "__itruediv__": ("/=", operator.truediv),
    "__ifloordiv__": ("//=", operator.floordiv),
    "__imod__": ("%=", operator.mod),
    "__ipow__": ("**=", operator.pow),
    "__imatmul__": ("@=", operator.matmul),
    "__iand__": ("&=", operator.and_),
    "__ior__": ("|=", operator.or_),
    "__ixor__": ("^=", operator.xor),
    "__ilshift__": ("<<=", operator.lshift),
    "__irshift__": (">>=", operator.rshift),
}
#: The order of kinds of dtypes; a result is cast to its own kind, or to one that comes later.
_ORDER = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


class InPlace:
    """Inherited by ``Variable``."""

    __slots__ = ()

    #: Whether the operators update it also where it requires no gradient: a frozen parameter.
    _updated_in_place: ClassVar[bool] = False


def update(x: Variable, symbol: str, function: Function, other: Any) -> Variable:
    """Give the leaf ``x`` the value ``function(x, other)``, cast to the dtype of ``x``.

    Raises GradError while operations on ``x`` are recorded, and where ``other`` has a history that
    would be lost; ShapeError for a value of another shape; DTypeError for one of another kind, such
    as complex numbers for a floating ``x``.
    """
    sign = symbol[:-1]
    if x.requires_grad and is_grad_enabled():
        raise GradError(
            f"p {symbol} x on a leaf that requires a gradient cannot be recorded. To update the "
            f"leaf write `with ag.no_grad(): p {symbol} x`, or `p.tensor = p.tensor {sign} x`; "
            f"for a new variable write `y = p {sign} x`"
        )
    value = function(x, other)
    if value.requires_grad:
        raise GradError(
            f"p {symbol} x on a leaf that requires no gradient: x requires one, and its history "
            f"would be lost. Use x.detach(), or write `y = p {sign} x`"
        )
    if value.shape != x.shape:
        raise ShapeError(f"p {symbol} x on a leaf of shape {x.shape}: the result is {value.shape}")
    if _ORDER[value.dtype.kind] > _ORDER[x.dtype.kind]:
        raise DTypeError(
            f"p {symbol} x on a leaf of {x.dtype}: the result is {value.dtype}, which is not cast "
            f"back. For a new variable write `y = p {sign} x`"
        )
    x.tensor = value.astype(x.dtype)
    return x


def _method(name: str) -> Callable[[Variable, Any], Any]:
    symbol, function = OPERATORS[name]

    def method(self: Variable, other: Any) -> Any:
        node = self._node
        leaf = self._updated_in_place if node is None else node.rule is None
        # Of NotImplemented Python makes self + other.
        return update(self, symbol, function, other) if leaf else NotImplemented

    method.__name__, method.__qualname__ = name, f"Variable.{name}"
    method.__doc__ = f"``p {symbol} x``: under ``no_grad``, an update of a leaf that learns."
    return method


for _name in OPERATORS:
    setattr(InPlace, _name, _method(_name))
