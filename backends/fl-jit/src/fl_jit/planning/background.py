"""A queue of background work, run sequentially in one daemon thread.

The thread ends when the queue is empty, and does not keep the program from ending. A forked process
has no such thread. Work that is queued there starts a new one.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

from fl_memory import free_after_fork

_lock = free_after_fork(threading.Lock())
_waiting: deque[Callable[[], None]] = deque()
_thread: threading.Thread | None = None


def submit(work: Callable[[], None]) -> None:
    """Queue ``work``, which must not raise. Raises RuntimeError where no thread can be started."""
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
    _thread = None  # the thread stayed with the parent


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
