"""Work in the order of CUDA streams: what a collective waits for, and what waits for it."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

from fl_cupy.watchdog import Watchdog
from fl_dist import Work

__all__ = ["Order", "StreamWork", "order_of_call"]


class Order:
    """What a collective waits for, and what waits for it: events of CUDA.

    operation  of the asynchronous call; "" of a blocking one
    """

    def __init__(self, ready: Any, operation: str = "") -> None:
        self.ready = ready
        self.operation = operation
        self.done: Any = None


#: The order of the asynchronous call that this context performs.
order_of_call: contextvars.ContextVar[Order | None] = contextvars.ContextVar("order", default=None)


class StreamWork(Work):
    """A Work whose result is still on its way when it ends: the stream of whoever waits for it
    waits for the bytes, the host does only in ``synchronize``."""

    def __init__(
        self, work: Work, order: Order, watchdog: Watchdog, stream: Callable[[], Any]
    ) -> None:
        super().__init__(work.what)
        self._order = order
        self._watchdog = watchdog
        self._stream = stream
        work.on_end(self._settle_as(work))

    def _settle_as(self, work: Work) -> Callable[[], None]:
        def settle() -> None:
            self.settle_with(lambda: work.result)

        return settle

    def wait(self, timeout: float | None = None) -> Any:
        result = super().wait(timeout)
        if self._order.done is not None:
            self._stream().wait_event(self._order.done)
        return result

    def synchronize(self, timeout: float | None = None) -> Any:
        """``wait``, and block until the bytes are there. Raises the error of a collective that was
        given up: DistTimeoutError or PeerError."""
        result = self.wait(timeout)
        if self._order.done is not None:
            self._order.done.synchronize()
        if self._watchdog.error is not None:
            raise self._watchdog.error
        return result
