"""The stack of overrides and wrappers between a call and the backend, a context variable.

``with ft.override(add=my_add):`` replaces operations. ``with ft.profile(...):`` and other
``Wrapper``s see all operations. Blocks nest in any order, and the innermost is called first. An
empty stack costs nothing: ``ops_for(base)`` is then the backend itself.

A derived operation that the backend writes itself is one call. Otherwise, and under any override,
the composition runs over the whole stack, so every layer sees the operation and its parts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import MethodType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from fl_tensor.backend import TensorBackend
from fl_tensor.capabilities import OptionalOps
from fl_tensor.derived_ops import DerivedOps
from fl_tensor.errors import ArgumentError, BackendError, DTypeError

if TYPE_CHECKING:
    from typing_extensions import Self
L = TypeVar("L", bound="Layer")

_stack: ContextVar[Stack | None] = ContextVar("fl_tensor_stack", default=None)
#: What is active here above the backends; None in the usual case.
current = _stack.get


def ops_for(base: TensorBackend) -> Any:
    """The namespace of operations that computes for tensors of ``base`` in this context: the
    backend itself, or the stack of layers above it."""
    stack = _stack.get()
    return base if stack is None else stack.over(base)


@functools.cache
def primitive_names() -> frozenset[str]:
    return TensorBackend.__abstractmethods__ - {"devices", "synchronize"}


@functools.cache
def operation_names() -> frozenset[str]:
    """Every operation of the contract: required, derived and optional."""
    derived = {name for name in vars(DerivedOps) if not name.startswith("_")}
    optional = {name for name, f in vars(OptionalOps).items() if hasattr(f, "capability")}
    return primitive_names() | derived | optional


#: Methods of backends whose arguments are graphs. Layers see them, and the operations inside.
CONTROL = frozenset(("cond", "scan", "while_loop"))


@functools.cache
def seen_names() -> frozenset[str]:
    """What layers are asked for: numbers beside an array are operations to a wrapper, too."""
    return operation_names() | {"constant", "scalar"} | CONTROL


class Layer:
    """One entry of the stack: a context manager. It may be entered again while it is active, in
    other threads as well (but a ``trace``, which has one graph)."""

    #: Whether results are the same without it. Where something is computed once more after the
    #: block (``fl_autograd.checkpoint``), a layer that only watches is left out, and one that may
    #: change results is there again.
    watches: bool = False

    def __enter__(self) -> Self:
        _stack.set(Stack(_stack.get(), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stack = _stack.get()
        if stack is None or stack.layer is not self:
            raise BackendError(
                f"[{type(self).__name__}] its block ends in a context where it is not the "
                f"innermost: leave blocks in the reverse order of entering"
            )
        _stack.set(stack.below)


class override(Layer):
    """``with ft.override(add=my_add):`` every operation here uses ``my_add(inner, x, y)`` for
    ``add``: derived operations, gradients and optimizers included. ``inner`` is the namespace that
    it replaces; ``x`` and ``y`` are adapters, and so is the result. Blocks nest; the innermost is
    called first. Raises ArgumentError for a name that is no operation, DTypeError for what cannot
    be called."""

    def __init__(self, **replacements: Callable[..., Any]) -> None:
        unknown = sorted(set(replacements) - operation_names())
        if unknown:
            import difflib

            near = difflib.get_close_matches(unknown[0], operation_names(), 3)
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise ArgumentError(f"[override] there is no operation {unknown[0]!r}{hint}")
        for name, replacement in replacements.items():
            if not callable(replacement):
                raise DTypeError(
                    f"[override] {name}={replacement!r}: expected a function, called as "
                    f"{name}(inner, ...) with the namespace that it replaces and adapters"
                )
        self.replacements = replacements


class Operation:
    """An operation as a wrapper meets it; made once per block and backend, not per call.

    name      as in the contract, or ``"constant"`` or ``"scalar"``: a number beside an array; or
              ``"cond"``, ``"while_loop"`` or ``"scan"``
    backend   the base backend, for a wrapper's own arithmetic: no layer sees what it computes
    composed  whether ``run`` is a composition, whose pieces come through the wrapper as calls of
              their own
    run       ``run(*arguments, **options)`` computes; adapters go in and come out
    """

    __slots__ = ("backend", "composed", "name", "run")

    def __init__(self, name: str, backend: Any, run: Callable[..., Any], composed: bool) -> None:
        self.name = name
        self.backend = backend
        self.run = run
        self.composed = composed

    def __repr__(self) -> str:
        return f"Operation({self.name!r} on {self.backend.name!r})"


class Wrapper(Layer):
    """Sees every operation of a block. Derive from it and write ``call``:

        class Shapes(ft.Wrapper):
            def call(self, operation, *arguments, **options):
                result = operation.run(*arguments, **options)
                print(operation.name, getattr(result, "shape", ""))
                return result

        with Shapes():
            ft.softmax(x)          # softmax, after the exp, sum, ... that it is made of

    Operations on tensors of every backend come here, whenever the tensors were made: forward,
    backward, optimizers, data that enters (``from_host``) and leaves (``to_host``). Threads that
    run in a copied context call at the same time.

    Set ``watches = True`` in a class that never changes a result.
    """

    def call(self, operation: Operation, /, *arguments: Any, **options: Any) -> Any:
        """Do ``operation``: return what ``operation.run(*arguments, **options)`` gives, or
        something else of that shape, dtype and device. Arguments come in the contract's order."""
        return operation.run(*arguments, **options)


class Stack:
    """A layer and those that were there before it. Immutable, but for the namespaces made of it."""

    __slots__ = ("_made", "below", "layer", "replaces")

    #: Whether some layer replaces operations.
    replaces: bool

    def __init__(self, below: Stack | None, layer: Layer) -> None:
        self.below = below
        self.layer = layer
        self.replaces = isinstance(layer, override) or (below is not None and below.replaces)
        self._made: dict[int, Namespace] = {}

    def over(self, base: Any) -> Namespace:
        """The operations of ``base`` seen from the top of this stack."""
        found = self._made.get(id(base))
        if found is None:
            found = self._made[id(base)] = Namespace(base, self)
        return found


class Namespace:
    """The operations of a backend seen through a stack; whatever else is asked for is the
    backend's. Methods are made when first used."""

    def __init__(self, base: Any, stack: Stack) -> None:
        self._base = base
        self._top = stack

    def __getattr__(self, name: str) -> Any:
        if name not in seen_names():
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(self._base, name)
        method, _ = self._method(self._top, name)
        setattr(self, name, method)
        return method

    def _method(self, stack: Stack | None, name: str) -> tuple[Callable[..., Any], bool]:
        # What ``name`` does from ``stack`` downwards, and whether that is a composition.
        base = self._base
        if stack is None:
            home = TensorBackend if name in CONTROL else DerivedOps
            own, composition = getattr(base, name), getattr(home, name, None)
            if composition is None:
                return own, False
            if getattr(type(base), name) is not composition and not self._top.replaces:
                return own, False
            return MethodType(composition, self), True
        layer = stack.layer
        if isinstance(layer, override):
            replacement = layer.replacements.get(name)
            if replacement is None:
                return self._method(stack.below, name)
            inner = base if stack.below is None else stack.below.over(base)
            return functools.partial(replacement, inner), False
        run, composed = self._method(stack.below, name)
        if isinstance(layer, Wrapper):
            operation = Operation(name, base, run, composed)
            return functools.partial(layer.call, operation), composed
        return run, composed


def through(layer: Layer, ops: Any) -> Namespace | None:
    """The operations of ``ops``, a backend or one that is seen through layers, seen through one
    layer more; None for any other namespace."""
    if isinstance(ops, Namespace):
        return Stack(ops._top, layer).over(ops._base)
    return Stack(None, layer).over(ops) if isinstance(ops, TensorBackend) else None


def active(kind: type[L]) -> Iterator[L]:
    """The layers of a class that are active in this context, innermost first."""
    return (layer for layer in _layers(_stack.get()) if isinstance(layer, kind))


def revived(first: Stack | None) -> Stack | None:
    """The stack for computing again, in this context, what was computed under ``first``: its layers
    that may change results, and of those that only watch the ones that are active now."""
    now, before = list(_layers(_stack.get())), list(_layers(first))
    lasting = [layer for layer in before if not layer.watches or _among(layer, now)]
    watching = [layer for layer in now if layer.watches and not _among(layer, lasting)]
    if len(lasting) == len(before) and not watching:
        return first
    made: Stack | None = None
    for layer in reversed(watching + lasting):
        made = Stack(made, layer)
    return made


@contextmanager
def under(stack: Stack | None) -> Iterator[None]:
    """Compute under ``stack`` and nothing else."""
    token = _stack.set(stack)
    try:
        yield
    finally:
        _stack.reset(token)


def _layers(stack: Stack | None) -> Iterator[Layer]:
    while stack is not None:
        yield stack.layer
        stack = stack.below


def _among(layer: Layer, layers: list[Layer]) -> bool:
    return any(other is layer for other in layers)
