"""A process may fork while other threads are in the middle of something."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

from fl_memory.forks import free_after_fork
from fl_memory.managers.system import SystemManager

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are of POSIX"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


class Slow(SystemManager):
    """Says when it begins an allocation, which takes a while."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()

    def reserve(self, *request: Any) -> Any:
        self.begun.set()
        time.sleep(0.3)
        return super().reserve(*request)


class SlowLock:
    """Takes a while to get."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.release = self._lock.release

    def acquire(self, blocking: bool = True) -> bool:
        time.sleep(0.1)
        return self._lock.acquire(blocking)


def status_of(work: Any) -> int:
    """The exit status of a forked process that does ``work``: 0 where it ends in time."""
    child = os.fork()
    if child == 0:
        signal.alarm(5)  # a lock that nobody holds is waited for for ever
        failed = 1
        try:
            work()
            failed = 0
        finally:
            os._exit(failed)
    return os.waitpid(child, 0)[1]


def test_both_processes_go_on_with_a_manager_that_was_busy() -> None:
    manager = Slow()
    thread = threading.Thread(target=lambda: manager.alloc(100).free())
    thread.start()
    assert manager.begun.wait(5)
    assert status_of(lambda: manager.alloc(10).free()) == 0
    thread.join()
    manager.alloc(10).free()
    figures = manager.stats()
    assert (figures.allocs, figures.frees, figures.live_bytes) == (2, 2, 0)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_lock_may_be_held_while_another_is_waited_for(order: tuple[int, int]) -> None:
    locks = [threading.Lock(), threading.Lock()]
    for lock in locks:
        free_after_fork(lock)
    outer, inner = (locks[i] for i in order)
    begun, had = threading.Event(), []

    def nested() -> None:
        with outer:
            begun.set()
            time.sleep(0.3)  # the other thread forks
            had.append(inner.acquire(timeout=2))
            if had[0]:
                inner.release()

    thread = threading.Thread(target=nested)
    thread.start()
    assert begun.wait(5)
    assert status_of(lambda: [lock.acquire() for lock in locks]) == 0
    thread.join()
    assert had == [True]
    assert not any(lock.locked() for lock in locks)


def test_threads_may_fork_at_the_same_time() -> None:
    lock, together, ended = threading.Lock(), threading.Barrier(2), []
    free_after_fork(lock)
    slow = SlowLock()
    free_after_fork(slow)

    def fork() -> None:
        together.wait(5)
        ended.append(status_of(lambda: lock.acquire()))

    threads = [threading.Thread(target=fork) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == [0, 0]
    assert lock.acquire(timeout=5)
