"""A process may fork while other threads are in the middle of something."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fl_memory.forks
from fl_memory import free_after_fork
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

    def allocate_chunk(self, *request: Any) -> Any:
        self.begun.set()
        time.sleep(0.3)
        return super().allocate_chunk(*request)


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


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for modules, which are forgotten after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def importing(name: str) -> threading.Thread:
    thread = threading.Thread(target=importlib.import_module, args=(name,), daemon=True)
    thread.start()
    while name not in sys.modules:
        time.sleep(0.001)
    return thread


@pytest.mark.defect("V2")
def test_a_fork_waits_for_an_import_of_these_packages(modules: Path) -> None:
    (modules / "fl_slow.py").write_text("import fl_slower\nimport os\nprocess = os.getpid()\n")
    (modules / "fl_slower.py").write_text("import time\ntime.sleep(0.3)\n")
    thread = importing("fl_slow")
    me = os.getpid()

    def work() -> None:
        assert importlib.import_module("fl_slow").process == me

    assert status_of(work) == 0
    thread.join()


@pytest.mark.defect("V2")
def test_a_fork_waits_for_what_these_packages_import(modules: Path) -> None:
    (modules / "fl_user.py").write_text("def use():\n    import slow_library\n")
    (modules / "slow_library.py").write_text("import time\ntime.sleep(0.3)\nready = True\n")
    thread = threading.Thread(target=importlib.import_module("fl_user").use)
    thread.start()
    while "slow_library" not in sys.modules:
        time.sleep(0.001)

    def work() -> None:
        assert importlib.import_module("slow_library").ready

    assert status_of(work) == 0
    thread.join()


@pytest.mark.defect("V2")
def test_what_a_fork_did_not_wait_for_is_imported_again(
    modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fl_memory.forks, "IMPORT_TIMEOUT", 0.05)
    (modules / "fl_endless.py").write_text(
        "import threading\n"
        "if threading.current_thread() is not threading.main_thread():\n"
        "    import fl_gate\n"
        "    fl_gate.open.wait()\n"
        "complete = True\n"
    )
    (modules / "fl_gate.py").write_text("import threading\nopen = threading.Event()\n")
    gate: Any = importlib.import_module("fl_gate")
    thread = importing("fl_endless")

    def work() -> None:
        assert importlib.import_module("fl_endless").complete

    try:
        assert status_of(work) == 0
        assert not hasattr(sys.modules["fl_endless"], "complete")  # here it is still under way
    finally:
        gate.open.set()
        thread.join()
    assert importlib.import_module("fl_endless").complete


def test_a_module_may_fork_while_it_is_imported(modules: Path) -> None:
    (modules / "fl_forking.py").write_text(
        "import os\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    import fl_imported_by_child\n"
        "    os._exit(fl_imported_by_child.status)\n"
        "status = os.waitpid(child, 0)[1]\n"
    )
    (modules / "fl_imported_by_child.py").write_text("status = 0\n")
    assert importlib.import_module("fl_forking").status == 0


def test_a_program_that_runs_inside_an_import_is_not_waited_for(
    modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fl_memory.forks, "IMPORT_TIMEOUT", float("inf"))
    (modules / "fl_working.py").write_text("def work(gate):\n    gate.wait()\n")
    (modules / "program.py").write_text(
        "import fl_working\nimport threading\n"
        "gate, inside = threading.Event(), threading.Event()\n"
        "inside.set()\nfl_working.work(gate)\n"
    )
    thread = importing("program")
    program: Any = sys.modules["program"]
    while not hasattr(program, "inside"):
        time.sleep(0.001)
    assert program.inside.wait(5)
    rescue = threading.Timer(60, program.gate.set)
    rescue.start()
    assert status_of(lambda: None) == 0
    assert not program.gate.is_set()
    rescue.cancel()
    program.gate.set()
    thread.join()


@pytest.mark.defect("V2")
def test_a_lock_that_an_import_brings_is_free_too() -> None:
    slow, late = SlowLock(), threading.Lock()
    free_after_fork(slow)
    begun, end = threading.Event(), threading.Event()

    def bring() -> None:
        begun.wait(5)
        free_after_fork(late)
        with late:
            end.wait(0.4)

    thread = threading.Thread(target=bring)
    thread.start()
    threading.Timer(0.05, begun.set).start()  # while the fork waits for the slow one
    assert status_of(lambda: late.acquire()) == 0
    thread.join()
