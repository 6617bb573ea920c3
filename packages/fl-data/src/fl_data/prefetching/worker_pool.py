"""Worker processes seen from the consumer: start, reuse, shutdown."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from threading import RLock
from typing import Any, Literal
from weakref import WeakSet

from fl_data.prefetching import shared_memory
from fl_data.prefetching.worker_main import MakeSample, UseDataset, main

StartMethod = Literal["spawn", "forkserver", "fork"]

_ends: WeakSet[Connection] = WeakSet()
"""This process's ends of all pipes. A forked worker has them too, and must close them: as long as
one is open, the worker at the other end waits for more."""

_JOIN_TIMEOUT = 5.0
"""Seconds that a worker has for the sample that it is making, before it is killed."""


class WorkerHandle:
    """A worker process as the consumer sees it."""

    def __init__(self, number: int, method: StartMethod) -> None:
        context: Any = multiprocessing.get_context(method)
        self.connection, other = context.Pipe()
        _ends.add(self.connection)
        self.requests: deque[MakeSample] = deque()
        self.slots = shared_memory.SharedBuffers()
        self.unready = 0  # datasets that it has been sent and has not read
        self.is_dead = False
        try:
            inherited = tuple(_ends) if method == "fork" else ()
            self.process = context.Process(
                target=main,
                args=(other, inherited),
                name=f"fl-data-prefetch-{number}",
                daemon=True,
            )
            self.process.start()
        except BaseException:
            self.connection.close()
            raise
        finally:
            other.close()

    def send(self, message: UseDataset | MakeSample) -> None:
        with suppress(OSError):  # it is dead: noticed, and reported, when its answer is awaited
            self.connection.send(message)

    def end(self) -> str:
        """How it died, for people."""
        self.process.join(1.0)
        code = self.process.exitcode
        if code is None:
            return "closed its pipe"
        if code >= 0:
            return f"ended with exit status {code}"
        with suppress(ValueError):
            name = signal.Signals(-code).name
            return f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
        return f"was killed by signal {-code}"


class WorkerGroup:
    """Processes that wait for datasets to make samples of.

    A worker that sees its pipe closed ends after the sample that it is making; so it does when this
    process dies. They end when this object goes, or with the program.
    """

    def __init__(self, count: int, method: StartMethod) -> None:
        self.owner = os.getpid()
        self.members: list[WorkerHandle] = []
        # In a forked process, which has copies of the pipes but not the workers, it does nothing.
        self.close = Finalize(self, _end, args=(self.members,), exitpriority=0)
        try:
            for number in range(count):
                self.members.append(WorkerHandle(number, method))
        except BaseException:
            self.close()
            raise

    @property
    def are_alive(self) -> bool:
        return all(member.process.is_alive() for member in self.members)


def _end(members: list[WorkerHandle]) -> None:
    for member in members:
        member.connection.close()
    deadline = time.monotonic() + _JOIN_TIMEOUT
    for member in members:
        member.process.join(max(0.0, deadline - time.monotonic()))
        if member.process.exitcode is None:
            member.process.kill()
            member.process.join()
        member.process.close()
    members.clear()


class WorkerPool:
    """The workers of one `Prefetch`: kept between its iterations, as processes start slowly."""

    def __init__(self, count: int, method: StartMethod) -> None:
        self._count, self._method = count, method
        self._idle: WorkerGroup | None = None
        self._is_closed = False
        self._lock = RLock()

    def take(self) -> WorkerGroup:
        """Workers that nobody else has."""
        with self._lock:
            found, self._idle = self._idle, None
        if found is not None and found.owner == os.getpid() and found.are_alive:
            return found
        if found is not None:
            found.close()
        return WorkerGroup(self._count, self._method)

    def put(self, workers: WorkerGroup) -> None:
        """Keep them for the next iteration; end them if there are others, or nobody to come."""
        with self._lock:
            if self._idle is None and not self._is_closed:
                self._idle = workers
                return
        workers.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            workers, self._idle = self._idle, None
        if workers is not None:
            workers.close()
