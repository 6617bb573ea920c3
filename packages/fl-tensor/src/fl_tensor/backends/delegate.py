"""``DelegatingBackend``: the base of new backends, which borrows every primitive.

A backend author starts here, overrides one method after the other, and has a complete and correct
backend at every step:

1. Override a primitive, ``add`` say. ``self.to_host(x)`` reads an operand, ``self.from_host(...)``
   makes the result, ``super().add(x, y)`` is what was borrowed. Compositions, gradients and
   optimizers use what is overridden.
2. Keep values your own way: write an adapter, and the methods ``adopt`` (a value of the inner
   backend becomes one of yours) and ``lend`` (the other way). Borrowed primitives go on working.
3. When ``borrowed()`` is empty, derive from ``TensorBackend`` instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from fl_tensor.backend import TensorAdapter, TensorBackend
from fl_tensor.cached import cached_property
from fl_tensor.derived_ops import DerivedOps
from fl_tensor.device import Device
from fl_tensor.dispatch import registry
from fl_tensor.dispatch.stack import operation_names
from fl_tensor.dtypes import DType
from fl_tensor.roles import Shape

__all__ = ["DelegatingAdapter", "DelegatingBackend"]


class DelegatingAdapter(TensorAdapter):
    """A value of the inner backend, on a device of the outer one."""

    __slots__ = ("__weakref__", "device", "inner")

    device: Device

    def __init__(self, inner: TensorAdapter, device: Device) -> None:
        self.inner = inner
        self.device = device

    @property
    def shape(self) -> Shape:
        return self.inner.shape

    @property
    def dtype(self) -> DType:
        return self.inner.dtype


def _borrowed(name: str) -> Callable[..., Any]:
    original = getattr(TensorBackend, name)
    capability = getattr(original, "capability", None)

    @functools.wraps(original)
    def operation(self: DelegatingBackend, *arguments: Any, **options: Any) -> Any:
        if capability is not None and capability not in self.capabilities:
            return original(self, *arguments, **options)  # which says what is missing
        device = _device((*arguments, *options.values())) or self.devices()[0]
        operands = [self._outward(a) for a in arguments]
        named = {key: self._outward(value) for key, value in options.items()}
        return self._inward(getattr(self.lender, name)(*operands, **named), device)

    vars(operation).pop("__isabstractmethod__", None)
    vars(operation)["borrowed"] = True
    return operation


def _leaves(arguments: Iterable[Any]) -> Iterator[Any]:
    for value in arguments:
        yield from value if isinstance(value, (list, tuple)) else (value,)


def _device(arguments: Iterable[Any]) -> Device | None:
    found: Device | None = None
    for value in _leaves(arguments):
        if isinstance(value, TensorAdapter):
            return value.device
        if isinstance(value, Device):
            found = value
    return found


class _Borrowed:
    """Every operation that a backend may have to write, done by the inner one."""


for _name in (n for n in operation_names() if n not in vars(DerivedOps)):
    setattr(_Borrowed, _name, _borrowed(_name))


_scatter = _borrowed("scatter")


class DelegatingBackend(_Borrowed, TensorBackend):
    """Derive from it, state ``CONTRACT`` and ``name``, override what you do better.

    The shapes that methods get fit (``checks_shapes`` is False). Derived operations are not
    borrowed: they are compositions of your primitives. Optional ones are if you declare their
    capability, and missing if not.
    """

    #: Who computes what is not overridden: the name of a backend, a backend, or its class.
    lent_by: ClassVar[registry.BackendLike] = "numpy"

    @cached_property
    def lender(self) -> TensorBackend:
        """The inner backend."""
        return registry.get_backend(self.lent_by)

    @classmethod
    def borrowed(cls) -> list[str]:
        """The names of the operations that the inner backend still does: required ones, and those
        of declared capabilities."""
        offered = {None, *cls.capabilities}
        methods = {name: getattr(cls, name) for name in vars(_Borrowed)}
        return sorted(
            name
            for name, method in methods.items()
            if hasattr(method, "borrowed") and getattr(method, "capability", None) in offered
        )

    def adopt(self, value: TensorAdapter, device: Device) -> TensorAdapter:
        """A value of the inner backend as one of this backend, on ``device``."""
        return DelegatingAdapter(value, device)

    def lend(self, x: Any) -> TensorAdapter:
        """A value of this backend as one of the inner backend; the opposite of ``adopt``."""
        return x.inner

    def devices(self) -> list[Device]:
        return self.lender.devices()

    def synchronize(self, device: Device) -> None:
        for each in self.lender.devices():
            self.lender.synchronize(each)

    def evaluate(self, values: Sequence[Any]) -> None:
        self.lender.evaluate([self.lend(x) for x in values])

    def is_ready(self, x: Any) -> bool:
        return self.lender.is_ready(self.lend(x))

    def scatter(
        self, x: Any, indices: Any, updates: Any, axis: int = 0, mode: str = "set",
        donate: bool = False,
    ) -> Any:  # fmt: skip
        # Who else holds x, the inner backend cannot see: so x is never given up.
        return _scatter(self, x, indices, updates, axis, mode)

    vars(scatter)["borrowed"] = True

    def _outward(self, value: Any) -> Any:
        if isinstance(value, TensorAdapter):
            return self.lend(value)
        if isinstance(value, Device):
            return self.lender.devices()[0]
        if isinstance(value, (list, tuple)):
            return type(value)(self._outward(v) for v in value)
        return value

    def _inward(self, result: Any, device: Device) -> Any:
        if isinstance(result, TensorAdapter):
            return self.adopt(result, device)
        if isinstance(result, (list, tuple)):
            return type(result)(self._inward(r, device) for r in result)
        return result
