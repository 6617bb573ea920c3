"""The number of threads, one setting for all pools of the process.

Each pool (BLAS, OpenMP, generated kernels) registers when its library is loaded, and is notified of
changes. Any layer can read the number here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import NamedTuple

from fl_memory.forks import free_after_fork
from fl_tensor.errors import ArgumentError

__all__ = ["Pool", "get_num_threads", "pools", "register", "set_num_threads"]


class Pool(NamedTuple):
    """Threads that a library keeps.

    name      for people: "OpenBLAS"
    resize    called with the number whenever it is set, and when the pool registers if it was set
    state     one line for ``fl-tensor info``: how many threads there are, and what limits them
    """

    name: str
    resize: Callable[[int], None]
    state: Callable[[], str]


#: Threads of one operation; more are a mistake, and would not start.
MOST = 1024

_lock = free_after_fork(threading.RLock())
_pools: dict[str, Pool] = {}
_chosen: int | None = None


def _default() -> int:
    # As OpenMP counts: the first of its numbers (the outer level), else the processors we may use.
    setting = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if setting.isdigit() and int(setting) > 0:
        return min(int(setting), MOST)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_initial = _default()


def get_num_threads() -> int:
    """How many threads one operation may use: what ``set_num_threads`` was given, else
    OMP_NUM_THREADS, else the number of processors that this process may run on."""
    return _initial if _chosen is None else _chosen


def set_num_threads(count: int) -> None:
    """Let operations use ``count`` threads each, from now on, in the whole process.

    Pools that are not loaded yet are told when they are. Raises ArgumentError unless count is an
    integer from 1 to 1024.
    """
    global _chosen
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
        raise ArgumentError(f"set_num_threads({count!r}): give an integer from 1 to {MOST}")
    with _lock:
        _chosen = count
        for pool in _pools.values():
            pool.resize(count)


def register(pool: Pool) -> None:
    """Add a pool, or replace the one of its name."""
    with _lock:
        _pools[pool.name] = pool
        if _chosen is not None:
            pool.resize(_chosen)


def pools() -> list[Pool]:
    """The pools whose libraries are loaded."""
    return list(_pools.values())
