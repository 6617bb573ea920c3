"""The current manager: the registry, the choice of the process and of the context."""

from __future__ import annotations

import operator
import os
import sys
import threading
import weakref
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

from fl_memory.argument_checks import checked_limit
from fl_memory.causes import set_step
from fl_memory.errors import AllocationError, PluginError
from fl_memory.forks import free_after_fork
from fl_memory.manager import HOST, MemoryManager
from fl_memory.plugins import Registry

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = [
    "REGISTRY", "always_small", "available", "current", "get", "limit", "manager_of", "mark",
    "on_use", "use",
]  # fmt: skip

#: Names of managers; ``register`` adds one by hand, entry points add installed ones.
REGISTRY = Registry(
    group="fl.memory.v1",
    what="memory manager",
    host=HOST,
    host_package="fl-memory",
    base=MemoryManager,
    builtins={
        "arena": "fl_memory.managers.arena:ArenaManager",
        "best_fit": "fl_memory.managers.best_fit:BestFitManager",
        "buddy": "fl_memory.managers.buddy:BuddyManager",
        "caching": "fl_memory.managers.caching:CachingManager",
        "exact": "fl_memory.managers.exact:ExactManager",
        "planned": "fl_memory.managers.planned:PlannedManager",
        "system": "fl_memory.managers.system:SystemManager",
    },
)

DEFAULT = "caching"
ENVIRONMENT = "FL_MEMORY_MANAGER"

_instances: dict[str, MemoryManager] = {}
_lock = free_after_fork(threading.RLock())
_scoped: ContextVar[MemoryManager | None] = ContextVar("fl_memory_manager", default=None)
# Plain calls of `use`, oldest first; the last one counts. A call whose result may yet be entered
# as a context manager keeps its predecessors here, because entering takes the call back.
# A tuple, replaced as a whole: readers need no lock.
_choices: tuple[tuple[MemoryManager, weakref.ref[use] | None], ...] = ()
_lowest = sys.maxsize
#: Lower bound of ``small_bytes`` over all managers used so far: a backend need not look up the
#: current manager for a smaller result. 0 until the process has a manager. Changes: read it as
#: ``selection.always_small``.
always_small = 0
_listeners: tuple[Callable[[MemoryManager], object], ...] = ()


def available() -> list[str]:
    """The names that ``use`` and ``get`` accept."""
    return REGISTRY.names()


def get(name: str) -> MemoryManager:
    """The process's one manager of that name, made on first use.

    Raises PluginError (unknown or broken) or ContractError (written for another contract).
    """
    found = _instances.get(name) if isinstance(name, str) else None
    if found is None:
        made = REGISTRY.load(name)()
        with _lock:
            found = _instances.setdefault(name, made)
    return found


def manager_of(given: MemoryManager | str) -> MemoryManager:
    """``given``, or the manager of that name. Raises PluginError for anything else."""
    if isinstance(given, str):
        return get(given)
    if not isinstance(given, MemoryManager):
        raise PluginError(
            f"manager {given!r}: give a MemoryManager or one of: {', '.join(available())}"
        )
    return given


def current() -> MemoryManager:
    """The manager that serves requests here and now.

    The innermost ``with use(...)`` of this context, else the last plain ``use(...)`` of the
    process, else the environment variable FL_MEMORY_MANAGER, else "caching".
    """
    scoped = _scoped.get()
    if scoped is not None:
        return scoped
    choices = _choices
    return choices[-1][0] if choices else _from_environment()


def mark(name: str, number: int = 0) -> None:
    """Say that the program has reached a point: ``mark("step", 12)`` when step 12 begins.

    The current manager and its observers are told. The mark "step" also sets the step of the causes
    of this context. AllocationError for a name that is no text, and a number that is no integer.
    """
    try:
        number = operator.index(number)
    except TypeError:
        raise AllocationError(f"mark({name!r}, {number!r}): expected an integer") from None
    if not isinstance(name, str):
        raise AllocationError(f"mark({name!r}, {number!r}): expected a name")
    if name == "step":
        set_step(number)
    current().mark(name, number)


def on_use(listener: Callable[[MemoryManager], object]) -> Callable[[], None]:
    """Call ``listener(manager)`` whenever a manager is chosen from now on, also one that has been
    before; returns a function to stop that."""
    global _listeners

    def told(manager: MemoryManager) -> None:
        listener(manager)

    def remove() -> None:
        global _listeners
        with _lock:
            _listeners = tuple(other for other in _listeners if other is not told)

    with _lock:
        _listeners = (*_listeners, told)
    return remove


def _choose(choices: tuple[tuple[MemoryManager, weakref.ref[use] | None], ...]) -> None:
    global _choices
    _choices = choices
    for manager, _ in choices:
        _note(manager)


def _note(manager: MemoryManager) -> None:
    global _lowest, always_small
    _lowest = min(_lowest, manager.small_bytes)
    always_small = _lowest if _choices else 0
    for listener in _listeners:
        listener(manager)


class use:
    """Let ``manager`` (an object or a registered name) serve all requests from now on.

    ``use(m)`` sets it for the whole process; ``with use(m) as manager:`` for the block and this
    context only (threads that run in a copied context included). Swapping is allowed at any
    moment: the manager that made a block frees it, and managers fetched by name keep their
    statistics, because there is one of each name.
    """

    __slots__ = ("__weakref__", "_tokens", "manager")

    def __init__(self, manager: MemoryManager | str) -> None:
        self.manager = manager_of(manager)
        self._tokens: list[Token[MemoryManager | None]] = []
        with _lock:
            # Calls that can no longer be taken back make everything before them irrelevant.
            settled = [i for i, (_, ref) in enumerate(_choices) if ref is None or ref() is None]
            kept = _choices[settled[-1] :] if settled else _choices
            _choose((*kept, (self.manager, weakref.ref(self))))

    def __enter__(self) -> MemoryManager:
        with _lock:  # scoped after all: take the process-wide choice back
            _choose(tuple(c for c in _choices if c[1] is None or c[1]() is not self))
            _note(self.manager)
        self._tokens.append(_scoped.set(self.manager))
        return self.manager

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _scoped.reset(self._tokens.pop())


class limit:
    """Within ``with limit(nbytes):`` the current manager holds at most ``nbytes`` of the device.

    Cached memory counts: what is over the limit is released at the beginning where possible. A
    request beyond the limit raises OutOfMemoryError; blocks that are live already stay. The limit
    is the manager's, so it also binds other threads, and it ends with the block.

    Raises AllocationError for a negative number, and where the manager cannot limit itself.
    """

    __slots__ = ("_before", "device", "manager", "nbytes")

    def __init__(self, nbytes: int, *, device: str = "cpu") -> None:
        limit = checked_limit(nbytes)
        if limit is None:
            raise AllocationError("limit(None): give a number of bytes, an integer >= 0")
        self.nbytes = limit
        self.device = device

    def __enter__(self) -> MemoryManager:
        self.manager = current()
        self._before = self.manager.set_limit(self.nbytes, device=self.device)
        try:
            if self.manager.stats(self.device).reserved_bytes > self.nbytes:
                self.manager.release_cached()
        except BaseException:  # of an observer
            self.manager.set_limit(self._before, device=self.device)
            raise
        return self.manager

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.manager.set_limit(self._before, device=self.device)


def _from_environment() -> MemoryManager:
    setting = os.environ.get(ENVIRONMENT)
    try:
        manager = get(setting or DEFAULT)
    except PluginError as error:
        if not setting:
            raise
        raise PluginError(f"{ENVIRONMENT}={setting!r}: {error}") from error
    with _lock:
        if not _choices:
            _choose(((manager, None),))
        return _choices[-1][0]
