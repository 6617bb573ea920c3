"""The operators of ``Tensor``, with a fast path to the backend.

On a few elements, ``x + y`` costs as much as the Python around it. The fast path goes from the
operator straight to the backend. It applies to two tensors of one class, dtype and backend, or to a
tensor and a number that takes its dtype, with no override active. All other calls take the general
path of ``Array``, which promotes, converts, and words errors. So do calls that raise or return
None. A MemoryError is passed on: a second attempt might succeed and hide it.

The methods are made from one template, because attribute access by a constant name is fastest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fl_tensor import dtypes
from fl_tensor.arguments import scalar
from fl_tensor.arrays.array import Array
from fl_tensor.arrays.templates import method_from
from fl_tensor.dispatch import frontend, stack
from fl_tensor.dispatch.frontend import KINDS

#: Python's name -> operation, role of its operands (``fl_tensor.roles``).
BINARY = {
    "__add__": ("add", "N"),
    "__sub__": ("subtract", "N"),
    "__mul__": ("multiply", "N"),
    "__truediv__": ("divide", "F"),
    "__floordiv__": ("floor_divide", "R"),
    "__mod__": ("remainder", "R"),
    "__pow__": ("power", "N"),
    "__and__": ("bitwise_and", "I"),
    "__or__": ("bitwise_or", "I"),
    "__xor__": ("bitwise_xor", "I"),
    "__lshift__": ("bitwise_left_shift", "Z"),
    "__rshift__": ("bitwise_right_shift", "Z"),
    "__eq__": ("equal", "P"),
    "__ne__": ("not_equal", "P"),
    "__lt__": ("less", "Q"),
    "__le__": ("less_equal", "Q"),
    "__gt__": ("greater", "Q"),
    "__ge__": ("greater_equal", "Q"),
}
PRODUCT = {"__matmul__": ("matmul", "N")}
REFLECTED = {
    "__radd__": ("add", "N"),
    "__rsub__": ("subtract", "N"),
    "__rmul__": ("multiply", "N"),
    "__rtruediv__": ("divide", "F"),
    "__rpow__": ("power", "N"),
}
UNARY = {
    "__neg__": ("negative", "N"),
    "__abs__": ("absolute", "N"),
    "__invert__": ("bitwise_invert", "I"),
}

# A number that takes the dtype of the array beside it, and its value there.
_NUMBER = (
    "type(other) is float and dtype.is_floating or type(other) is int and dtype is not boolean"
)
_VALUE = "other if type(other) is float else scalar('OPERATION', other, dtype)"
_BINARY = f"""\
def METHOD(self, other):
    try:
        x = self._adapter
        dtype = x.dtype
        backend = self._backend
        if dtype.kind in 'KINDS' and backend.checks_shapes and overrides() is None:
            cls = type(self)
            if type(other) is cls:
                y = other._adapter
                if y.dtype is dtype and other._backend is backend:
                    y = backend.OPERATION(x, y)
                    if type(y) in values:
                        made = new(cls)
                        made._adapter = y
                        made._backend = backend
                        return made
            elif {_NUMBER}:
                y = backend.OPERATION(x, backend.scalar({_VALUE}, dtype, x.device))
                if type(y) in values:
                    made = new(cls)
                    made._adapter = y
                    made._backend = backend
                    return made
    except MemoryError:
        raise
    except Exception:
        return general(self, other)
    return general(self, other)
"""
# Vectors get one more axis, on the general way.
_PRODUCT = _BINARY.replace("dtype is dtype", "dtype is dtype and len(x.shape) > 1 < len(y.shape)")
_REFLECTED = f"""\
def METHOD(self, other):
    try:
        y = self._adapter
        dtype = y.dtype
        backend = self._backend
        if (
            ({_NUMBER})
            and dtype.kind in 'KINDS'
            and backend.checks_shapes
            and overrides() is None
        ):
            y = backend.OPERATION(backend.scalar({_VALUE}, dtype, y.device), y)
            if type(y) in values:
                made = new(type(self))
                made._adapter = y
                made._backend = backend
                return made
    except MemoryError:
        raise
    except Exception:
        return general(self, other)
    return general(self, other)
"""
_UNARY = """\
def METHOD(self):
    try:
        x = self._adapter
        backend = self._backend
        if x.dtype.kind in 'KINDS' and overrides() is None:
            x = backend.OPERATION(x)
            if type(x) in values:
                made = new(type(self))
                made._adapter = x
                made._backend = backend
                return made
    except MemoryError:
        raise
    except Exception:
        return general(self)
    return general(self)
"""


def _make(template: str, method: str, operation: str, role: str) -> Callable[..., Any]:
    general = getattr(Array, method)
    scope = {"general": general, "new": object.__new__, "overrides": stack.current}
    scope |= {"values": frontend.VALUES, "scalar": scalar, "boolean": dtypes.bool}
    # Frames of it are ours to whoever looks for the user's line (``wrappers.caller``).
    scope["__name__"] = __name__
    replaced = {"OPERATION": operation, "KINDS": KINDS[role]}
    function: Callable[..., Any] = method_from(template, method, replaced, scope)
    function.__doc__ = general.__doc__
    return function


class Operators:
    """Inherited by ``Tensor`` before ``Array``."""

    __slots__ = ()


for _template, _table in (
    (_BINARY, BINARY),
    (_PRODUCT, PRODUCT),
    (_REFLECTED, REFLECTED),
    (_UNARY, UNARY),
):
    for _method, (_operation, _role) in _table.items():
        setattr(Operators, _method, _make(_template, _method, _operation, _role))
# Defining __eq__ takes the hash away, as in Array: equality is elementwise.
Operators.__hash__ = None  # type: ignore[assignment]
