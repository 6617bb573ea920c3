"""Observers of a manager, and the events that wait for them.

Events wait in ``_undelivered`` until the step of the manager is over. Before memory goes back to
the device, they are told in the middle of the step. An error that an observer raises there is put
into the same queue.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from fl_memory.causes import add_observer, observed
from fl_memory.errors import AllocationError
from fl_memory.events import Event
from fl_memory.forks import free_after_fork

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EventQueue"]


class EventQueue:
    """The part of ``AccountingManager`` that tells observers what it did."""

    def __init__(self) -> None:
        self._lock = free_after_fork(threading.RLock())
        #: Whether a step is active, in the middle of which nothing may be raised.
        self._busy = False
        self._observers: tuple[Callable[[Event], object], ...] = ()
        self._undelivered: deque[Event | BaseException] = deque()
        self._delivering = False

    def on_event(self, observer: Callable[[Event], object]) -> Callable[[], None]:
        if not callable(observer):
            raise AllocationError(f"on_event({observer!r}): expected a function of an event")

        # A wrapper of its own, so that the same function may observe twice and leave once.
        def observe(event: Event) -> object:
            return observer(event)

        watch = add_observer(observe)
        with self._lock:
            self._observers = (*self._observers, observe)

        def remove() -> None:
            observed.discard(watch)
            with self._lock:
                self._observers = tuple(o for o in self._observers if o is not observe)

        return remove

    def _tell(self, event: Event) -> None:
        """Tell ``event`` now, or at the end of the step in the middle of which this is called."""
        with self._lock:
            self._undelivered.append(event)
            if not self._busy:
                self._notify_observers()

    def _notify_observers(self) -> None:
        """Tell the observers everything; called with the lock held and the figures consistent.

        Then the first error of theirs is raised, or, in the middle of a step (``_busy``), it waits
        in the queue until the step is over.
        """
        if self._delivering:  # an observer allocated or freed: the loop below is at work already
            return
        self._delivering = True
        first: BaseException | None = None
        try:
            while self._undelivered:
                told = self._undelivered.popleft()
                if not isinstance(told, Event):
                    first = told if first is None else first
                    continue
                for observer in self._observers:
                    try:
                        observer(told)
                    except BaseException as error:
                        first = error if first is None else first
        finally:
            self._delivering = False
        if first is not None:
            try:
                if not self._busy:
                    raise first
                self._undelivered.append(first)
            finally:
                del first  # its traceback refers to this frame: a cycle would keep blocks alive
