"""Threads that run blocking operations in order: one queue per key, or one progress thread."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from fl_dist.work import Work

_SHORTEST, _LONGEST = 2e-5, 1e-3  # seconds between two looks at messages under way


class Job(NamedTuple):
    """A blocking operation.

    key    operations of one key run one by one, in the order of their submission
    what   its name in messages
    body   does it
    ready  of a message: whether ``body`` would return at once. None for a collective
    """

    key: Hashable
    what: str
    body: Callable[[], Any]
    ready: Callable[[], bool] | None = None


class OrderedQueues:
    """A queue per key. Queues do not wait for one another: a posted ``recv`` must not hold up an
    ``all_reduce``. A queue has a thread only while it has work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[Hashable, deque[tuple[Work, Job]]] = {}

    @property
    def may_skip(self) -> bool:
        """Whether a blocking operation may run on the calling thread, as nothing is before it."""
        return not self._queues

    def is_busy(self, key: Hashable) -> bool:
        return key in self._queues

    def call(self, job: Job) -> Any:
        """Do ``job`` and return its result: on this thread unless others are before it."""
        return self.submit(job).wait() if job.key in self._queues else job.body()

    def submit(self, job: Job) -> Work:
        """Do ``job`` in the background."""
        work = Work(job.what)
        entry = (work, job._replace(body=_in_context_of_caller(job.body)))
        with self._lock:
            queue = self._queues.get(job.key)
            if queue is not None:
                queue.append(entry)
                return work
            self._queues[job.key] = deque([entry])
        name = f"fl_dist {job.what}"
        threading.Thread(target=self._drain, args=(job.key,), name=name, daemon=True).start()
        return work

    def progress(self) -> None:
        """Everything progresses by itself."""

    def stop(self) -> None:
        """Threads end by themselves."""

    def _drain(self, key: Hashable) -> None:
        while True:
            with self._lock:
                queue = self._queues[key]
                if not queue:
                    del self._queues[key]
                    return
                work, job = queue.popleft()
            work.settle_with(job.body)


class ProgressThread:
    """One thread runs everything: for transports that no two threads may call.

    Collectives run one by one. Messages are served between them, and while one of them waits if its
    hook calls ``progress``: those that are ready, in their order per key.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._collectives: deque[tuple[Work, Job]] = deque()
        self._messages: list[tuple[Work, Job]] = []
        self._thread: threading.Thread | None = None
        self._serving = False
        self._stopped = False

    may_skip = False

    def is_busy(self, key: Hashable) -> bool:
        with self._changed:
            return any(job.key == key for _, job in (*self._collectives, *self._messages))

    def call(self, job: Job) -> Any:
        return self.submit(job).wait()

    def submit(self, job: Job) -> Work:
        work = Work(job.what)
        entry = (work, job._replace(body=_in_context_of_caller(job.body)))
        with self._changed:
            (self._collectives if job.ready is None else self._messages).append(entry)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="fl_dist progress", daemon=True
                )
                self._thread.start()
            self._changed.notify()
        return work

    def progress(self) -> bool:
        """Serve the messages that are ready; whether there was one. For the progress thread."""
        if self._serving or threading.current_thread() is not self._thread:
            return False
        self._serving = True
        try:
            return self._serve_messages()
        finally:
            self._serving = False

    def stop(self) -> None:
        """End the thread when nothing is left to do."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _run(self) -> None:
        pause = _SHORTEST
        while True:
            pause = _SHORTEST if self.progress() else min(2 * pause, _LONGEST)
            with self._changed:
                if not self._collectives:
                    if self._messages:
                        self._changed.wait(pause)
                    elif self._stopped:
                        self._thread = None
                        return
                    else:
                        self._changed.wait()
                        pause = _SHORTEST
                    continue
                work, job = self._collectives.popleft()
            work.settle_with(job.body)
            pause = _SHORTEST

    def _serve_messages(self) -> bool:
        with self._changed:
            waiting = list(self._messages)
        seen: set[Hashable] = set()
        served = False
        for entry in waiting:
            work, job = entry
            if job.key in seen:
                continue
            if not _is_ready(job):
                seen.add(job.key)  # those behind it keep their order
                continue
            work.settle_with(job.body)
            served = True
            with self._changed:
                self._messages.remove(entry)
        return served


def _is_ready(job: Job) -> bool:
    assert job.ready is not None
    try:
        return job.ready()
    except Exception:
        return True  # the body runs into the same error, which belongs to the work


def _in_context_of_caller(body: Callable[[], Any]) -> Callable[[], Any]:
    context = contextvars.copy_context()  # the backend in use, overrides and the like
    return lambda: context.run(body)
