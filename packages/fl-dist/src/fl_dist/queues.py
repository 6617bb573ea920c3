"""Threads that run blocking operations in order: one queue per key, or one progress thread."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from fl_dist.work import Work

_SHORTEST, _LONGEST = 2e-5, 1e-3  # seconds between two looks at receives under way


class Job(NamedTuple):
    """A blocking operation.

    key    operations of one key run one by one, in the order of their submission
    what   its name in messages
    body   does it
    ready  whether ``body`` would return at once; None for what may block the others
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

    A job that is not ``ready`` is put aside and looked at between the others, so that a posted
    ``recv`` does not hold up an ``all_reduce``.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[tuple[Work, Job]] = deque()
        self._aside: list[tuple[Work, Job]] = []
        self._thread: threading.Thread | None = None
        self._stopped = False

    def is_busy(self, key: Hashable) -> bool:
        with self._changed:
            return any(job.key == key for _, job in (*self._jobs, *self._aside))

    def call(self, job: Job) -> Any:
        return self.submit(job).wait()

    def submit(self, job: Job) -> Work:
        work = Work(job.what)
        with self._changed:
            self._jobs.append((work, job._replace(body=_in_context_of_caller(job.body))))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="fl_dist progress", daemon=True
                )
                self._thread.start()
            self._changed.notify()
        return work

    def stop(self) -> None:
        """End the thread when nothing is left to do."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _run(self) -> None:
        pause = _SHORTEST
        while True:
            with self._changed:
                if not self._jobs and (self._aside or not self._stopped):
                    self._changed.wait(pause if self._aside else None)
                if not self._jobs and not self._aside and self._stopped:
                    self._thread = None
                    return
                entry = self._jobs.popleft() if self._jobs else None
                if entry is not None and entry[1].ready is not None:
                    self._aside.append(entry)
                    entry = None
                    pause = _SHORTEST
            if entry is not None:
                entry[0].settle_with(entry[1].body)
                pause = _SHORTEST
            pause = _SHORTEST if self._serve_aside() else min(2 * pause, _LONGEST)

    def _serve_aside(self) -> bool:
        """Do what has become ready; whether there was something."""
        seen: set[Hashable] = set()
        done = []
        for entry in list(self._aside):
            work, job = entry
            if job.key in seen:
                continue
            seen.add(job.key)  # the first of a key alone: they keep their order
            if _is_ready(job):
                work.settle_with(job.body)
                done.append(entry)
        with self._changed:
            self._aside = [entry for entry in self._aside if entry not in done]
        return bool(done)


def _is_ready(job: Job) -> bool:
    assert job.ready is not None
    try:
        return job.ready()
    except Exception:
        return True  # the body runs into the same error, which belongs to the work


def _in_context_of_caller(body: Callable[[], Any]) -> Callable[[], Any]:
    context = contextvars.copy_context()  # the backend in use, overrides and the like
    return lambda: context.run(body)
