"""Worker threads, as many as ``ft.set_num_threads`` says."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context

from fl_memory import free_after_fork
from fl_tensor.extend import threads

#: Whether this is a worker: it must not wait for others, which may all be waiting themselves.
_is_worker: ContextVar[bool] = ContextVar("acme_threads_is_worker", default=False)


class WorkerPool:
    """Runs a function on parts of a range. ``fl-tensor info`` lists the pool by ``name``."""

    def __init__(self, name: str) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._lock = free_after_fork(threading.Lock())
        threads.register(threads.Pool(name, self._resize, self._state))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def run(self, function: Callable[[slice], object], size: int) -> None:
        """Call ``function`` with slices that cover ``range(size)``, at once, and wait. Raises what
        the first call that fails raises."""
        parts = _parts(size, threads.get_num_threads())
        if len(parts) < 2 or _is_worker.get():
            function(slice(0, size))
            return
        with self._lock:  # of callers in several threads, and of ``_resize``
            if self._executor is None:
                self._executor = ThreadPoolExecutor(threads.get_num_threads(), "acme-threads")
            # In a copy of the caller's context: it holds the memory manager of ``fl_memory.use``.
            submit = self._executor.submit
            jobs = [submit(copy_context().run, _work, function, part) for part in parts[1:]]
        try:
            function(parts[0])
        finally:
            errors = [job.exception() for job in jobs]
        for error in errors:
            if error is not None:
                raise error

    def _resize(self, count: int) -> None:
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False)  # what was submitted is done

    def _state(self) -> str:
        return f"{threads.get_num_threads()} at most"

    def _forget(self) -> None:
        self._executor = None  # its threads stayed with the parent process


def _work(function: Callable[[slice], object], part: slice) -> None:
    _is_worker.set(True)  # in the copy of the context
    function(part)


def _parts(size: int, count: int) -> list[slice]:
    edges = [size * i // count for i in range(count + 1)]
    return [slice(begin, end) for begin, end in zip(edges, edges[1:]) if begin < end]
