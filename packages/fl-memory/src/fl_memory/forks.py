"""Locks that a forked process finds free.

A fork copies locks as they are, and of the threads only the one that forks. What another thread was
half-way through would stay so in the child, and its lock would be held by nobody. So a fork waits
for the locks that are named here, all of them, and both processes go on with these free.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_held: list[Any] = []


def free_after_fork(lock: Any) -> None:
    """Have forks wait for ``lock`` of ``threading``, as long as it lives."""
    _locks.add(lock)


def _before_fork() -> None:
    _held[:] = _locks
    for lock in _held:
        lock.acquire()


def _after_fork() -> None:
    for lock in _held:
        lock.release()
    _held.clear()


if hasattr(os, "register_at_fork"):  # systems that fork
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
