"""``Work``: the handle of an asynchronous operation (``async_op=True``)."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

from fl_dist.errors import DistError, DistTimeoutError


class Work:
    """An operation under way. Waiting twice gives the same result twice.

    A communicator either settles a Work (``succeed`` / ``fail``) from whatever thread runs it, or
    subclasses and overrides ``done`` and ``wait``.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._settled = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None
        self._seen = False  # somebody was told the error

    # ---- users

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not. Never blocks."""
        return self._settled.is_set()

    @property
    def error(self) -> BaseException | None:
        """The exception it ended with; None while it is under way and when it went well."""
        if not self.done:
            return None
        self._seen = True
        return self._error

    @property
    def result(self) -> Any:
        """What the operation returns. Raises its exception, or DistError while it is under way."""
        if not self.done:
            raise DistError(f"{self.what} is still under way: call wait() first")
        self._seen = True
        if self._error is not None:
            raise self._error
        return self._result

    @property
    def settled(self) -> bool:
        """Whether nobody needs to wait for it any more: done, and its error, if any, is known."""
        return self.done and (self._error is None or self._seen)

    def wait(self, timeout: float | None = None) -> Any:
        """Block until it has ended and return ``result``.

        Raises DistTimeoutError after ``timeout`` seconds; the operation goes on and may be waited
        for again. None waits as long as the operation itself may take.
        """
        if not self._settled.wait(timeout):
            raise DistTimeoutError(f"{self.what} is still under way after {timeout:g} s")
        return self.result

    # ---- communicators

    def succeed(self, result: Any) -> Work:
        self._result = result
        self._settled.set()
        return self

    def fail(self, error: BaseException) -> Work:
        self._error = error
        self._settled.set()
        return self

    def __repr__(self) -> str:
        state = "under way" if not self.done else "failed" if self._error else "done"
        return f"<Work {self.what}: {state}>"


class Lanes:
    """Runs blocking operations as Works. Within a lane they run one by one, in the order of their
    submission (collectives must); lanes do not wait for one another (a posted ``recv`` must not
    hold up an ``all_reduce``). A lane has a thread only while it has work.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[Hashable, deque[Callable[[], None]]] = {}

    def submit(self, lane: Hashable, what: str, body: Callable[[], Any], inline: bool) -> Work:
        """Run ``body`` on ``lane``. With ``inline``, on the calling thread if the lane is idle."""
        work = Work(what)

        def job() -> None:
            try:
                result = body()
            except Exception as error:
                work.fail(error)
            else:
                work.succeed(result)

        with self._lock:
            queue = self._queues.get(lane)
            if queue is not None:
                queue.append(_in_context_of_caller(job))
                return work
            if not inline:
                self._queues[lane] = deque([_in_context_of_caller(job)])
        if inline:
            job()
        else:
            name = f"fl_dist {what}"
            threading.Thread(target=self._drain, args=(lane,), name=name, daemon=True).start()
        return work

    def _drain(self, lane: Hashable) -> None:
        while True:
            with self._lock:
                queue = self._queues[lane]
                if not queue:
                    del self._queues[lane]
                    return
                job = queue.popleft()
            job()


def _in_context_of_caller(job: Callable[[], None]) -> Callable[[], None]:
    context = contextvars.copy_context()  # the backend in use, overrides and the like
    return lambda: context.run(job)
