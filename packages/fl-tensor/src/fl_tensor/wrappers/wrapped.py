"""``wrapped(backend, ...)``: a backend with permanent wrappers."""

from __future__ import annotations

import functools
from typing import Any

from fl_tensor.backend import TensorBackend
from fl_tensor.dispatch.registry import get_backend
from fl_tensor.dispatch.stack import Layer, Stack, seen_names
from fl_tensor.wrappers.trace import trace


def wrapped(backend: str | TensorBackend, *layers: Layer) -> TensorBackend:
    """A backend that computes what ``backend`` computes, through ``layers``; the first is called
    first. Where a ``with`` block sees what a context does, this sees what its own tensors do:

        checked = ft.wrapped("numpy", ft.check())
        x = ft.asarray([1.0, 2.0], backend=checked)
        with ft.use(checked):
            ...

    It is a backend of its own: its tensors do not mix with those of ``backend``.
    """
    base = get_backend(backend)
    stack: Stack | None = None
    for layer in reversed(layers):
        stack = Stack(stack, layer)
    cls = type(base)
    methods = {name: _through(name, getattr(cls, name)) for name in seen_names()}
    made: Any = type(f"Wrapped{cls.__name__}", (cls,), {"CONTRACT": cls.CONTRACT, **methods})
    if any(isinstance(layer, trace) for layer in layers):
        # It keeps every value, so that blocks do not go home.
        made.capabilities = base.capabilities - {"memory"}
    wrapper: Any = object.__new__(made)
    wrapper.__dict__.update(vars(base), _ops=base if stack is None else stack.over(base))
    return wrapper


def _through(name: str, method: Any) -> Any:
    @functools.wraps(method)
    def operation(self: Any, *arguments: Any, **options: Any) -> Any:
        return getattr(self._ops, name)(*arguments, **options)

    return operation
