"""Collectives under way on a device: those that take too long, or wait in vain, are aborted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from fl_dist import Deadline

__all__ = ["Watchdog"]

#: Seconds between two looks.
_PAUSE = 2e-3


class Watchdog:
    """A kernel of NCCL cannot be waited for with a timeout, and it ends only by an abort.

    look   raises when time is up or a rank is gone
    abort  called once with that error; ends the kernels
    """

    def __init__(
        self, look: Callable[[Deadline], None], abort: Callable[[Exception], None]
    ) -> None:
        self._look = look
        self._abort = abort
        self._lock = threading.Lock()
        self._under_way: list[tuple[Any, Deadline, Any]] = []
        self._thread: threading.Thread | None = None
        self.error: Exception | None = None

    def watch(self, event: Any, deadline: Deadline, memory: Any) -> None:
        """Look after a collective until ``event`` has happened, and keep its ``memory``."""
        with self._lock:
            self._under_way.append((event, deadline, memory))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="fl_cupy nccl", daemon=True)
                self._thread.start()

    def drain(self) -> None:
        """Return when nothing is under way any more."""
        while self._under_way:
            time.sleep(_PAUSE)

    def _run(self) -> None:
        while True:
            with self._lock:
                self._under_way = [each for each in self._under_way if not each[0].done]
                if not self._under_way:
                    self._thread = None
                    return
                _, deadline, _ = self._under_way[0]  # they end in their order
            if self.error is None:
                try:
                    self._look(deadline)
                except Exception as error:
                    self.error = error
                    self._abort(error)
            time.sleep(_PAUSE)
