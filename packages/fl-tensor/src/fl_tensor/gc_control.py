"""Pausing Python's garbage collector."""

from __future__ import annotations

import gc
import os
import threading
from types import TracebackType

from fl_memory.forks import free_after_fork

_lock = free_after_fork(threading.Lock())
_blocks = 0
_was_enabled = False


class gc_paused:
    """``with uncollected():`` around what makes very many objects, none of which is garbage.

    Inside, nothing looks for reference cycles, in all threads: a collection walks all objects there
    are, to find nothing. Cycles that other code leaves behind are collected after the block. Blocks
    nest.
    """

    def __enter__(self) -> None:
        global _blocks, _was_enabled
        with _lock:
            if not _blocks:
                _was_enabled = gc.isenabled()
                gc.disable()
            _blocks += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _blocks
        with _lock:
            _blocks = max(_blocks - 1, 0)
            if not _blocks and _was_enabled:
                gc.enable()


def _forked() -> None:
    # The blocks of other threads stayed with the parent, and their exits, too.
    global _blocks
    if _blocks and _was_enabled:
        gc.enable()
    _blocks = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
