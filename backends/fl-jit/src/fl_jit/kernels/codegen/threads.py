"""Threads of kernels: their number, and the pool.

The pool is libgomp's, which oneDNN shares, or fl-jit's own.
"""

from __future__ import annotations

import contextlib
import functools
import os

from fl_jit.kernels.codegen.thread_pools import Gomp, OwnThreads, Pool
from fl_tensor.extend import threads as settings

#: Minimum work per thread, in nanoseconds.
WORTH_A_THREAD = 10_000.0


@functools.cache
def pool() -> Pool | None:
    """The thread pool of this process; None if there is none, and kernels run serially."""
    for kind in (Gomp, OwnThreads):
        # A library or a function is missing; Windows has no CDLL(None).
        with contextlib.suppress(OSError, AttributeError, TypeError):
            return _registered(kind())
    return None


def _registered(pool: Pool) -> Pool:
    # For `fl-tensor info`. The number of threads is read at every call.
    settings.register(settings.Pool("kernels", lambda count: None, lambda: _state(pool)))
    return pool


def _state(pool: Pool) -> str:
    return f"{pool.name}, {limit()} at most, from {2 * WORTH_A_THREAD / 1000:g} us of work on"


_forked = False


def limit() -> int:
    """The maximum number of threads of a kernel."""
    return 1 if _forked else settings.get_num_threads()


def workers(work: float, items: int, most: int) -> int:
    """The number of threads for ``work`` nanoseconds in ``items`` parts, at most ``most``."""
    return max(min(most, items, int(work / WORTH_A_THREAD)), 1)


def _after_fork() -> None:
    # A forked child has no pool threads; libgomp would wait for them forever.
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
