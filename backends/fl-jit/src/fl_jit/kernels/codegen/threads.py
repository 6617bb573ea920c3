"""How many threads a kernel runs on, and whose: libgomp's, which oneDNN shares, or our own."""

from __future__ import annotations

import contextlib
import functools
import os

from fl_jit.kernels.codegen.thread_pools import Gomp, OwnThreads, Pool
from fl_tensor import threads as settings

#: Nanoseconds of work from which another thread is worth waking.
WORTH_A_THREAD = 10_000.0


@functools.cache
def pool() -> Pool | None:
    """The threads of this process; None where there are none: then kernels run serially."""
    for kind in (Gomp, OwnThreads):
        # A library or a function is missing; Windows has no library without a name.
        with contextlib.suppress(OSError, AttributeError, TypeError):
            return _told(kind())
    return None


def _told(pool: Pool) -> Pool:
    # To `fl-tensor info`; the number of threads is read with every call.
    settings.register(settings.Pool("kernels", lambda count: None, lambda: _state(pool)))
    return pool


def _state(pool: Pool) -> str:
    return f"{pool.name}, {limit()} at most, from {2 * WORTH_A_THREAD / 1000:g} us of work on"


_forked = False


def limit() -> int:
    """How many threads a kernel may use."""
    return 1 if _forked else settings.get_num_threads()


def workers(work: float, items: int, most: int) -> int:
    """How many threads ``work`` nanoseconds in ``items`` parts are worth, at most ``most``."""
    return max(min(most, items, int(work / WORTH_A_THREAD)), 1)


def _after_fork() -> None:
    # The threads stayed with the parent; libgomp would wait for them for ever.
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
