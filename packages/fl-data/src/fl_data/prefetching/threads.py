"""Prefetching with threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context

from fl_data.dataset import Sample
from fl_data.errors import IterationError


class ThreadPipeline:
    """What the threads share: the next index to make, and the samples made but not yet taken."""

    def __init__(self, make: Callable[[int], Sample], start: int, stop: int, depth: int) -> None:
        self._make = make
        self._next, self._end = start, stop
        self._taken = start
        self._depth = depth
        self._made: dict[int, tuple[Sample | None, BaseException | None]] = {}
        self._stopped = False
        self._changed = threading.Condition()
        self._workers: list[threading.Thread] = []

    def begin(self, threads: int, context: Context) -> None:
        """Start the threads. Raises `IterationError` when the system has none left."""
        try:
            self._start(threads, context)
        except RuntimeError as refused:
            raise IterationError(
                f"[prefetch] {threads} threads cannot be started ({refused}): "
                "use Prefetch with fewer threads"
            ) from refused

    def _start(self, threads: int, context: Context) -> None:
        for number in range(min(threads, self._depth, self._end - self._next)):
            # A context can be entered by one thread only: each gets its own copy.
            worker = threading.Thread(
                target=context.copy().run,
                args=(self._work,),
                name=f"fl-data-prefetch-{number}",
                daemon=True,  # a read that never returns must not keep the process alive
            )
            worker.start()
            self._workers.append(worker)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._may_go_on)
                if self._stopped or self._next >= self._end:
                    return
                index = self._next
                self._next += 1
            sample, error = None, None
            try:
                sample = self._make(index)
            except BaseException as caught:  # handed to the consumer, whatever it is
                error = caught
            with self._changed:
                if not self._stopped:
                    self._made[index] = (sample, error)
                self._changed.notify_all()
            del sample, error  # nothing may be kept alive by a waiting thread

    def _may_go_on(self) -> bool:
        return self._stopped or self._next >= self._end or self._next - self._taken < self._depth

    def take(self, index: int) -> tuple[Sample | None, BaseException | None]:
        """Wait for sample `index`; `(None, None)` when the pipeline was stopped meanwhile."""
        with self._changed:
            while not self._changed.wait_for(lambda: self._stopped or index in self._made, 1.0):
                if not any(worker.is_alive() for worker in self._workers):
                    raise IterationError(
                        "[prefetch] the threads of this iterator are gone (a forked process has "
                        "none): begin a new iteration in this process"
                    )
            made = self._made.pop(index, (None, None))
            self._taken = index + 1
            self._changed.notify_all()
            return made

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._made.clear()
            self._changed.notify_all()

    def join(self, timeout: float) -> None:
        for worker in tuple(self._workers):
            if worker is not threading.current_thread():
                worker.join(timeout)
