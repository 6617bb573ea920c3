"""Python's collector of reference cycles, switched off for a while."""

from __future__ import annotations

import gc
import threading
from types import TracebackType

_lock = threading.Lock()
_blocks = 0
_was_enabled = False


class uncollected:
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
            _blocks -= 1
            if not _blocks and _was_enabled:
                gc.enable()
