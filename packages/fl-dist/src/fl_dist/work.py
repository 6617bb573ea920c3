"""``Work``: the handle of an asynchronous operation (``async_op=True``)."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from fl_dist.errors import ArgumentError, DistError, DistTimeoutError

_SHORTEST, _LONGEST = 1e-4, 1e-2  # seconds between two looks of ``wait_any``


class Work:
    """An operation under way. Waiting twice gives the same result twice.

    A communicator settles a Work (``succeed`` / ``fail``) from whatever thread runs it. A
    transport that must be asked overrides ``done`` and ``wait``, and settles it in there.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._settled = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None
        self._seen = False  # somebody was told the error
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

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

        The result may be used by operations of its backend; on a device with streams its bytes may
        still be on their way (see ``synchronize``). Raises DistTimeoutError after ``timeout``
        seconds; the operation goes on and may be waited for again. None waits as long as the
        operation itself may take.
        """
        if not self._settled.wait(timeout):
            raise DistTimeoutError(f"{self.what} is still under way after {timeout:g} s")
        return self.result

    def synchronize(self, timeout: float | None = None) -> Any:
        """``wait``, and then block until the bytes of the result are there, also on a device with
        streams. The default is ``wait``: on the host there is no difference."""
        return self.wait(timeout)

    def then(self, callback: Callable[[Any], Any]) -> Work:
        """A Work that ends with ``callback(result)``, in the context of this call.

        The callback runs on the thread that ends this Work, or here if it has ended. It must not
        wait for other operations of the communicator. If this Work fails, the new one fails with
        the same exception and the callback is not called; if the callback raises, the new one
        fails with that.
        """
        following = Work(f"{self.what}, then {getattr(callback, '__name__', 'a callback')}")
        context = contextvars.copy_context()

        def proceed() -> None:
            if self._error is not None:
                self._seen = True
                following.fail(self._error)
            else:
                following.settle_with(lambda: context.run(callback, self._result))

        self.on_end(proceed)
        return following

    # ---- communicators

    @property
    def failure(self) -> BaseException | None:
        """``error``, for those who only look: somebody still has to be told it."""
        return self._error

    def succeed(self, result: Any) -> Work:
        self._result = result
        return self._settle()

    def fail(self, error: BaseException) -> Work:
        self._error = error
        return self._settle()

    def settle_with(self, body: Callable[[], Any]) -> Work:
        """Succeed with ``body()``, or fail with the exception that it raises."""
        try:
            result = body()
        except Exception as error:
            return self.fail(error)
        return self.succeed(result)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when this Work has ended: on the thread that ends it, or now."""
        with self._lock:
            if not self._settled.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def off_end(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` no more when this Work ends."""
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    def _settle(self) -> Work:
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
            self._settled.set()
        for callback in callbacks:
            callback()
        return self

    def __repr__(self) -> str:
        state = "under way" if not self.done else "failed" if self._error else "done"
        return f"<Work {self.what}: {state}>"


def settled(what: str, body: Callable[[], Any]) -> Work:
    """A Work that has ended already."""
    return Work(what).settle_with(body)


def wait_any(works: Sequence[Work], timeout: float | None = None) -> int:
    """Block until one of ``works`` has ended, well or not; the index of the first such.

    Raises DistTimeoutError after ``timeout`` seconds, ArgumentError for no works at all.
    """
    if (
        not isinstance(works, Sequence)
        or not works
        or not all(isinstance(work, Work) for work in works)
    ):
        raise ArgumentError("[wait_any] expected a list of at least one Work")
    ended = threading.Event()
    try:
        for work in works:
            work.on_end(ended.set)
        return _first_done(works, ended, timeout)
    finally:
        for work in works:
            work.off_end(ended.set)


def _first_done(works: Sequence[Work], ended: threading.Event, timeout: float | None) -> int:
    limit = None if timeout is None else time.monotonic() + timeout
    pause = _SHORTEST
    while True:
        for i, work in enumerate(works):
            if work.done:  # some Works find out only when they are asked
                return i
        left = None if limit is None else limit - time.monotonic()
        if left is not None and left <= 0:
            raise DistTimeoutError(f"none of {len(works)} works has ended after {timeout:g} s")
        ended.wait(pause if left is None else min(pause, left))
        pause = min(2 * pause, _LONGEST)
