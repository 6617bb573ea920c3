"""The registry of backends, and the current and default backend."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextvars import ContextVar, Token
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from fl_memory.contract import Version
from fl_memory.plugins import Registry
from fl_tensor.device import Device, DeviceLike
from fl_tensor.errors import ArgumentError, BackendError, DTypeError

if TYPE_CHECKING:
    from fl_tensor.backend import TensorBackend

#: A name, a backend, or the class of one.
BackendLike: TypeAlias = "str | TensorBackend | type[TensorBackend]"

REGISTRY = Registry(
    group="fl.tensor.v1",
    what="tensor backend",
    host=Version(1, 1),
    host_package="fl-tensor",
    base="fl_tensor.backend:TensorBackend",
)
REGISTRY.register("numpy", "fl_tensor.backends.numpy:NumpyBackend")
REGISTRY.register("null", "fl_tensor.backends.null:NullBackend")

#: The environment variable that names the default backend.
VARIABLE = "FL_TENSOR_BACKEND"

_instances: dict[str | type, Any] = {}
_process_default: Any = None
_context_default: ContextVar[Any] = ContextVar("fl_tensor_backend", default=None)


def available_backends() -> list[str]:
    """Names of the backends that are installed, whether or not they can be loaded."""
    return sorted(REGISTRY.names())


def get_backend(backend: BackendLike | None = None) -> TensorBackend:
    """The backend of that name or class (one instance per process), the object itself, or the
    default.

    Raises PluginError for an unknown name, ContractError for an incompatible backend, ArgumentError
    for what is no backend.
    """
    if backend is None:
        return current_backend()
    if isinstance(backend, (str, type)):
        found = _instances.get(backend)
        if found is None:  # of threads that make one at once, all use the first
            found = _instances.setdefault(backend, _made(backend))
        return found
    if not hasattr(backend, "from_host"):
        raise ArgumentError(
            f"{backend!r} is no backend: expected a name, such as 'numpy', a TensorBackend or a "
            f"class of one"
        )
    return backend


def module_of(name: str) -> ModuleType | None:
    """The module of the entry point by which a distribution offers the backend ``name``, imported;
    None where none does. Raises as ``get_backend`` where the backend cannot be loaded."""
    from importlib import import_module

    found = REGISTRY.offers(name)
    if not found:
        return None
    REGISTRY.load(name)  # says what is wrong with the module, or with its contract
    return import_module(found[0].module)


def place_for(device: DeviceLike, backend: BackendLike | None) -> tuple[TensorBackend, Device]:
    """The backend that is to make a tensor, and the device, its first unless one is named. Raises
    BackendError for a device that it has not."""
    backend = current_backend() if backend is None else get_backend(backend)
    if device is None:
        return backend, backend.devices()[0]
    place = Device.parse(device)
    if place not in backend.devices():
        have = ", ".join(map(str, backend.devices()))
        raise BackendError(f"backend {backend.name!r} has no device {place}; it has {have}")
    return backend, place


def place_named(text: str, backend: TensorBackend) -> Device | TensorBackend:
    """What a string names where a tensor of ``backend`` is to go: a device of that backend, or else
    an installed backend. A device with an index, such as ``cuda:1``, is not looked for. Raises
    BackendError for neither."""
    try:
        device = Device.parse(text)
    except ArgumentError:  # the names of backends are less strict
        device = None
    if device is not None and (device in backend.devices() or ":" in text):
        return device
    if text in REGISTRY.names():
        return get_backend(text)
    have = ", ".join(map(str, backend.devices()))
    raise BackendError(
        f"[to] {text!r} is no dtype, no device of backend {backend.name!r} ({have}) and no "
        f"installed backend ({', '.join(available_backends())})"
    )


def mixed(op: str, x: Any, y: Any) -> BackendError:
    """The error for operands ``x`` and ``y`` on two backends."""
    one, other = x._backend, y._backend
    installed = one.name in REGISTRY.names() and get_backend(one.name) is one
    target = repr(one.name) if installed else "backend"
    return BackendError(
        f"[{op}] operands are on backends {one.name!r} and {other.name!r}: move one with "
        f"x.to({target}), a whole model with model.to({target})"
    )


def _made(backend: str | type) -> Any:
    if isinstance(backend, str):
        return get_backend(REGISTRY.load(backend))
    return REGISTRY.accept(backend)()


def current_backend() -> TensorBackend:
    """The backend that creates tensors here: of ``use``, else ``FL_TENSOR_BACKEND``, else the
    installed one with the highest number (see ``defaults``). Raises BackendError if that one cannot
    be loaded."""
    global _process_default
    found = _context_default.get() or _process_default
    if found is None:  # once: a look at the environment takes longer than a small operation
        named = os.environ.get(VARIABLE)
        found = get_backend(named) if named else _highest()
        _process_default = found
    return found


def _highest() -> TensorBackend:
    from fl_tensor.dispatch import defaults  # FL_TENSOR_BACKEND and ft.use do without

    first, *others = defaults.candidates(REGISTRY)
    try:
        return get_backend(first.name)
    except Exception as error:  # of somebody else's module, constructor or driver
        raise BackendError(
            f"the default backend {first.name!r} ({first.origin} states {first.number}) cannot be "
            f"loaded: {error}; repair or uninstall it, or set {VARIABLE} to another one: "
            f"{', '.join(dict.fromkeys(each.name for each in others)) or 'numpy'}"
        ) from error


def null_backend() -> Any:
    return get_backend("null")


def synchronize(device: Device | str | None = None, backend: BackendLike | None = None) -> None:
    """Return when the work that is queued has finished: on ``device``, or on all devices of the
    backend. Raises BackendError if it has no such device."""
    base = get_backend(backend)
    devices = base.devices()
    if device is not None:
        wanted = Device.parse(device)
        if wanted not in devices:
            have = ", ".join(map(str, devices))
            raise BackendError(f"backend {base.name!r} has no device {wanted}; it has {have}")
        devices = [wanted]
    for each in devices:
        base.synchronize(each)


def eval(*arrays: Any) -> None:
    """Have these Tensors or Variables computed, where a deferred backend has put that off: from
    here on they are data, and what they were computed from need not be kept. Raises DTypeError for
    what is no array."""
    found: dict[Any, list[Any]] = {}
    for x in arrays:
        _check_array("eval", x)
        found.setdefault(x._backend, []).append(x._adapter)
    for backend, adapters in found.items():
        backend.evaluate(adapters)


def is_ready(*arrays: Any) -> bool:
    """Whether reading these Tensors or Variables computes nothing that a deferred backend has put
    off, and waits for nothing. Raises DTypeError for what is no array."""
    for x in arrays:
        _check_array("is_ready", x)
    return all(x._backend.is_ready(x._adapter) for x in arrays)


def _check_array(op: str, x: Any) -> None:
    if not hasattr(x, "_adapter"):
        hint = f"; give its elements one by one, ft.{op}(*x)" if isinstance(x, Iterable) else ""
        raise DTypeError(f"[{op}] a {type(x).__name__}: expected Tensors or Variables{hint}")


class use:
    """``ft.use("name")`` makes a backend the default of the process; ``with ft.use("name"):`` only
    in this context, until the block ends."""

    def __init__(self, backend: BackendLike) -> None:
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
