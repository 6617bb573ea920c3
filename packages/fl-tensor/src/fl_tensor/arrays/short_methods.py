"""Methods of ``Tensor`` with a fast path to the backend, as in ``operators``.

Arguments that give axes or shapes are parsed once per shape. Unusual calls take the general path of
``Array``, which also words errors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fl_tensor import arguments
from fl_tensor.arrays.array import Array
from fl_tensor.arrays.templates import method_from
from fl_tensor.dispatch import frontend, stack
from fl_tensor.dispatch.frontend import KINDS
from fl_tensor.functions import shaping


def _axes(shape: tuple[int, ...], axis: Any, *several: Any) -> tuple[int, ...]:
    """The axes of a reduction; those of a tuple stand behind an empty one."""
    return arguments.axes("reduce", several if type(axis) is tuple else axis, shape)


def _sizes(shape: tuple[int, ...], *given: Any) -> tuple[int, ...] | None:
    """The shape to make of ``shape``; None where nothing is to be done."""
    wanted = shaping.fitted(shape, arguments.ints_of("reshape", given, "shape"))
    return None if wanted == shape else wanted


def _order(shape: tuple[int, ...], *given: Any) -> tuple[int, ...]:
    return shaping.order(shape, arguments.ints_of("permute", given, "axes"))


#: Name -> parameters, what is read, how, the other arguments, role of the operand. Of what is read
#: a tuple is as good as its elements.
_REDUCTION = "axis=None, keepdims=False, out=None, **foreign", "axis", _axes, ", keepdims"
_COMPUTED = "axis=None, keepdims=False, dtype=None, out=None, **foreign", *_REDUCTION[1:]
METHODS: dict[str, tuple[str, str, Callable[..., Any], str, str]] = {
    "reshape": ("*shape", "shape", _sizes, "", "A"),
    "permute": ("*axes", "axes", _order, "", "A"),
    "max": (*_REDUCTION, "Q"),
    "min": (*_REDUCTION, "Q"),
    "mean": (*_COMPUTED, "F"),
    "sum": (*_COMPUTED, "A"),
    "prod": (*_COMPUTED, "A"),
}

# Elements of another class than int would be taken for those that are equal (1.0, True): so the
# cache is one that looks at classes, and each is an argument of its own.
_METHOD = """\
def METHOD(self, {parameters}):
    try:
        x = self._adapter
        backend = self._backend
        if overrides() is None and backend.checks_shapes and x.dtype.kind in 'KINDS'{usual}:
            read = {read}
            if read is not None:
                x = backend.METHOD(x, read{rest})
                if type(x) in values:
                    made = new(type(self))
                    made._adapter = x
                    made._backend = backend
                    return made
    except MemoryError:
        raise
    except Exception:
        return general(self, {given})
    return general(self, {given})
"""
#: What is so in usual calls, by parameters.
_USUAL = {"dtype": "dtype is None", "out": "out is None", "**foreign": "not foreign"}
_SEVERAL = "known(x.shape, *({0}[0] if len({0}) == 1 and type({0}[0]) is tuple else {0}))"
_ONE = "known(x.shape, (), *{0}) if type({0}) is tuple else known(x.shape, {0})"


def _make(method: str) -> Callable[..., Any]:
    parameters, what, reader, rest, role = METHODS[method]
    names = [p.partition("=")[0] for p in parameters.split(", ")]
    source = _METHOD.format(
        parameters=parameters,
        usual="".join(f" and {test}" for name, test in _USUAL.items() if name in names),
        read=(_SEVERAL if parameters.startswith("*") else _ONE).format(what),
        rest=rest,
        given=", ".join(names),
    )
    general = getattr(Array, method)
    known = functools.lru_cache(maxsize=1024, typed=True)(reader)
    scope = {"general": general, "new": object.__new__, "overrides": stack.current, "known": known}
    # Frames of it are ours to whoever looks for the user's line (``wrappers.caller``).
    scope |= {"values": frontend.VALUES, "__name__": __name__}
    made = method_from(source, method, {"METHOD": method, "KINDS": KINDS[role]}, scope)
    return functools.update_wrapper(made, general)


class ShortMethods:
    """Inherited by ``Tensor`` before ``Array``."""

    __slots__ = ()


for _method in METHODS:
    setattr(ShortMethods, _method, _make(_method))
