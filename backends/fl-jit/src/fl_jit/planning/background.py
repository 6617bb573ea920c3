"""Work that nobody waits for, one piece after the other in a thread of its own.

The thread ends when there is nothing left to do, and does not keep the program from ending. A
forked process has none; what waits there starts one again.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

from fl_memory.forks import free_after_fork

_lock = free_after_fork(threading.Lock())
_waiting: deque[Callable[[], None]] = deque()
_thread: threading.Thread | None = None


def submit(work: Callable[[], None]) -> None:
    """Have ``work``, which must not raise, done some time. Raises RuntimeError where no thread can
    be started."""
    global _thread
    with _lock:
        _waiting.append(work)
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_run, name="fl-jit", daemon=True)
            try:
                _thread.start()
            except RuntimeError:
                _waiting.pop()
                raise


def _run() -> None:
    global _thread
    while True:
        with _lock:
            if not _waiting:
                _thread = None
                return
            work = _waiting.popleft()
        work()


def _forked() -> None:
    global _thread
    _thread = None  # it stayed with the parent


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
