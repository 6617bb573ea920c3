"""A process may fork while another thread is in the middle of an allocation."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

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
