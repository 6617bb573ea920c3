"""Which backend computes: the registry, the default, and the stack of overrides above a backend."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fl_memory.contract import Version
from fl_memory.plugins import Registry
from fl_tensor.capabilities import OptionalOps
from fl_tensor.derived_ops import DerivedOps
from fl_tensor.errors import ArgumentError, BackendError

if TYPE_CHECKING:
    from fl_tensor.backend import TensorBackend

REGISTRY = Registry(group="fl.tensor.v1", what="tensor backend", host=Version(1, 0))
REGISTRY.register("numpy", "fl_tensor.backends.numpy:NumpyBackend")
REGISTRY.register("null", "fl_tensor.backends.null:NullBackend")

_instances: dict[str, Any] = {}
_process_default: Any = None
_context_default: ContextVar[Any] = ContextVar("fl_tensor_backend", default=None)
_stack: ContextVar[_Stack | None] = ContextVar("fl_tensor_overrides", default=None)


def available_backends() -> list[str]:
    """Names of the backends that are installed, whether or not they can be loaded."""
    return sorted(REGISTRY.names())


def get_backend(backend: str | TensorBackend | None = None) -> TensorBackend:
    """The backend of that name (one instance per process), the object itself, or the default.

    Raises PluginError for an unknown name, ContractError for an incompatible backend.
    """
    if backend is None:
        return current_backend()
    if not isinstance(backend, str):
        return backend
    if backend not in _instances:
        _instances[backend] = REGISTRY.load(backend)()
    return _instances[backend]


def current_backend() -> TensorBackend:
    """The backend that creates tensors here: of ``use``, else ``FL_TENSOR_BACKEND``, else numpy."""
    found = _context_default.get() or _process_default
    if found is None:
        found = get_backend(os.environ.get("FL_TENSOR_BACKEND") or "numpy")
    return found


def null_backend() -> Any:
    return get_backend("null")


class use:
    """``ft.use("name")`` makes a backend the default of the process; ``with ft.use("name"):`` only
    in this context, until the block ends."""

    def __init__(self, backend: str | TensorBackend) -> None:
        global _process_default
        self.backend = get_backend(backend)
        self._before = _process_default
        self._token: Token[Any] | None = None
        _process_default = self.backend

    def __enter__(self) -> TensorBackend:
        global _process_default
        _process_default = self._before
        self._token = _context_default.set(self.backend)
        return self.backend

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._token is None:
            raise BackendError("ft.use: left without having been entered")
        _context_default.reset(self._token)


def primitive_names() -> frozenset[str]:
    from fl_tensor.backend import TensorBackend

    return TensorBackend.__abstractmethods__ - {"devices", "synchronize"}


def optional_names() -> frozenset[str]:
    return frozenset(n for n, f in vars(OptionalOps).items() if hasattr(f, "capability"))


def operation_names() -> frozenset[str]:
    derived = {name for name in vars(DerivedOps) if not name.startswith("_")}
    return primitive_names() | derived | optional_names()


class Layer(DerivedOps):
    """The operations of ``inner`` with some replaced. Derived operations are compositions over this
    namespace, so that they see the replacement wherever they use it."""

    def __init__(self, inner: Any, replacements: dict[str, Callable[..., Any]]) -> None:
        self.inner = inner
        for name in primitive_names() | optional_names() | {"constant", "scalar"}:
            setattr(self, name, getattr(inner, name))
        # Derived operations that a block further out replaced stay replaced in all inner ones.
        self.derived_replacements: dict[str, Callable[..., Any]] = (
            dict(inner.derived_replacements) if isinstance(inner, Layer) else {}
        )
        for name, method in self.derived_replacements.items():
            setattr(self, name, method)
        for name, replacement in replacements.items():
            method = _bind(replacement, inner)
            setattr(self, name, method)
            if hasattr(DerivedOps, name):
                self.derived_replacements[name] = method

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def _bind(replacement: Callable[..., Any], inner: Any) -> Callable[..., Any]:
    def method(*arguments: Any, **options: Any) -> Any:
        return replacement(inner, *arguments, **options)

    return method


class _Stack:
    # Immutable: what it makes of a backend is kept beside it.
    def __init__(self, below: _Stack | None, replacements: dict[str, Callable[..., Any]]) -> None:
        self.below = below
        self.replacements = replacements
        self._made: dict[int, tuple[Any, Layer]] = {}

    def over(self, base: Any) -> Layer:
        found = self._made.get(id(base))
        if found is None:
            inner = base if self.below is None else self.below.over(base)
            found = self._made[id(base)] = (base, Layer(inner, self.replacements))
        return found[1]


def ops_for(base: TensorBackend) -> Any:
    """The namespace of operations that computes for tensors of ``base`` in this context: the
    backend itself, or the active overrides above it."""
    stack = _stack.get()
    return base if stack is None else stack.over(base)


class override:
    """``with ft.override(add=my_add):`` every operation here uses ``my_add(inner, x, y)`` for
    ``add``: derived operations, gradients and optimizers included. ``inner`` is the namespace that
    it replaces; ``x`` and ``y`` are adapters, and so is the result. Blocks nest; the innermost is
    called first. Raises ArgumentError for a name that is no operation."""

    def __init__(self, **replacements: Callable[..., Any]) -> None:
        unknown = sorted(set(replacements) - operation_names())
        if unknown:
            import difflib

            near = difflib.get_close_matches(unknown[0], operation_names(), 3)
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise ArgumentError(f"[override] there is no operation {unknown[0]!r}{hint}")
        self.replacements = replacements
        self._tokens: list[Token[_Stack | None]] = []

    def __enter__(self) -> override:
        self._tokens.append(_stack.set(_Stack(_stack.get(), self.replacements)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _stack.reset(self._tokens.pop())
