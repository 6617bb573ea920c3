"""Nested differentiation: derivatives inside functions that are differentiated themselves."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from fl_autograd.mode import enable_grad, is_grad_enabled
from fl_autograd.variable import Variable
from fl_tensor.dispatch.frontend import same_value

_differentiated: ContextVar[bool] = ContextVar("fl_autograd_differentiated", default=False)


def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``function(*args, **kwargs)``, recorded, whose result is differentiated afterwards."""
    token = _differentiated.set(True)
    try:
        with enable_grad():
            return function(*args, **kwargs)
    finally:
        _differentiated.reset(token)


def creates_graph(create_graph: bool | None) -> bool:
    """Whether a derivative that is taken here is recorded. Where it was not said (None): within a
    function that is differentiated, unless ``no_grad`` is active there."""
    if create_graph is None:
        return _differentiated.get() and is_grad_enabled()
    return create_graph


def point(x: Any, create_graph: bool) -> Variable:
    """A variable of the value of ``x`` to differentiate with respect to: with the history of ``x``
    if ``create_graph``, else a leaf."""
    if create_graph and isinstance(x, Variable) and x.requires_grad:
        with enable_grad():
            connected: Variable = same_value(x)
        return connected
    return Variable(x, requires_grad=True)
