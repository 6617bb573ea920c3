"""Fork safety: locks that are free, and imports that are complete, in a forked process.

A fork copies locks in their state, but only the thread that forks. In the child, a step of another
thread would stay half done, and its lock would stay held. So a fork waits for all locks that are
registered here, and both processes continue with these free.

Imports have locks, too, one for each module. Much of these packages is imported when it is first
needed, so the first seconds of a thread that trains are imports. A fork also waits while another
thread imports a module of these packages, or any module for code of these packages. This wait
is bounded, and an import may begin after it. So the child discards the import locks of threads that
it does not have, and imports unfinished modules of these packages again.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from types import FrameType
from typing import Any, TypeVar

__all__ = ["free_after_fork"]

L = TypeVar("L")

#: Seconds after which a fork waits no longer for imports: one of them may wait for this thread.
IMPORT_TIMEOUT = 5.0
#: How the names of these packages begin.
_PACKAGE_PREFIX = "fl_"
#: The file of the import system's code.
_IMPORTING = "<frozen importlib._bootstrap>"

_locks: list[weakref.ref[Any]] = []
_held: list[Any] = []


def free_after_fork(lock: L) -> L:
    """Register ``lock``, so that a forked child process finds it free; returns ``lock``.

    ``os.fork`` waits until it holds every registered lock, and releases them in both processes. For
    locks that guard state which a child process uses: caches, registries, memory managers.

    lock: a ``Lock`` or ``RLock`` of ``threading``; it is registered as long as it lives.
    """
    _locks.append(weakref.ref(lock, _locks.remove))
    return lock


_fork_lock = free_after_fork(threading.RLock())  # of threads that fork at the same time


def _registered_locks() -> list[Any]:
    return [lock for found in list(_locks) if (lock := found()) is not None]


def _acquire() -> None:
    # Nothing is held while one of them is waited for: whoever has it may be waiting for another.
    waited = _fork_lock
    while True:
        waited.acquire()
        held, busy = [waited], None
        for lock in _registered_locks():
            if lock is waited:
                continue
            if not lock.acquire(blocking=False):
                busy = lock
                break
            held.append(lock)
        # An import may register more locks meanwhile.
        if busy is None and len(held) == len(_registered_locks()):
            _held[:] = held
            return
        for lock in held:
            lock.release()
        waited = busy or waited


def _release() -> None:
    free = _held[:]
    _held.clear()
    for lock in free:
        lock.release()


def _is_importing(frame: FrameType | None) -> bool:
    """Whether the thread whose innermost frame this is imports one of these packages, or another
    module for one of them."""
    importing = False
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            importing = True
            name = frame.f_locals.get("name")  # of the module, in most of its functions
        else:
            name = frame.f_globals.get("__name__") if importing else None
        if isinstance(name, str) and name.startswith(_PACKAGE_PREFIX):
            return True
        frame = frame.f_back
    return False


def _other_threads_import() -> bool:
    me = threading.get_ident()
    return any(
        _is_importing(frame) for thread, frame in sys._current_frames().items() if thread != me
    )


def _before_fork() -> None:
    end = time.monotonic() + IMPORT_TIMEOUT
    _acquire()
    while _other_threads_import() and time.monotonic() < end:
        _release()  # imports may need them
        time.sleep(0.001)
        _acquire()


def _forget_imports() -> None:
    # ``importlib`` keeps a weak reference to the lock of each module that is being imported. A lock
    # that is held by this thread belongs to an import that goes on.
    locks = getattr(sys.modules["_frozen_importlib"], "_module_locks", {})
    me = threading.get_ident()
    for name, found in list(locks.items()):
        lock = found()
        if lock is None or getattr(lock, "owner", None) == me:
            continue
        del locks[name]
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if name.startswith(_PACKAGE_PREFIX) and getattr(spec, "_initializing", False):
            del sys.modules[name]


def _in_child() -> None:
    _release()
    _forget_imports()


if hasattr(os, "register_at_fork"):  # systems that fork
    os.register_at_fork(before=_before_fork, after_in_parent=_release, after_in_child=_in_child)
