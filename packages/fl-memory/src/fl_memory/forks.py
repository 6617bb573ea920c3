"""Locks that a forked process finds free.

A fork copies locks as they are, and of the threads only the one that forks. What another thread was
half-way through would stay so in the child, and its lock would be held by nobody. So a fork waits
for the locks that are named here, all of them, and both processes go on with these free.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from itertools import islice
from typing import Any

_locks: list[weakref.ref[Any]] = []
_held: list[Any] = []


def free_after_fork(lock: Any) -> None:
    """Have forks wait for ``lock`` of ``threading``, as long as it lives. It may be held while
    others of them are waited for, in any order."""
    _locks.append(weakref.ref(lock, _locks.remove))


_turn = threading.RLock()  # of threads that fork at the same time
free_after_fork(_turn)


def _before_fork() -> None:
    # Nothing is held while one of them is waited for: whoever has it may be waiting for another.
    wanted = deque(lock for found in list(_locks) if (lock := found()) is not None)
    while True:
        wanted[0].acquire()
        others = enumerate(islice(wanted, 1, None), 1)
        busy = next((i for i, lock in others if not lock.acquire(blocking=False)), 0)
        if not busy:
            break
        for lock in islice(wanted, busy):
            lock.release()
        wanted.rotate(-busy)
    _held[:] = wanted


def _after_fork() -> None:
    free = _held[:]
    _held.clear()
    for lock in free:
        lock.release()


if hasattr(os, "register_at_fork"):  # systems that fork
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
