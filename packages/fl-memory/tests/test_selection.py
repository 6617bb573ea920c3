"""current(), use() and FL_MEMORY_MANAGER: who serves requests where."""

from __future__ import annotations

import contextvars
import gc
import sys
import threading

import pytest

import fl_memory as mem
from fl_memory import selection
from fl_memory.managers.caching import CachingManager
from fl_memory.managers.system import SystemManager

pytestmark = pytest.mark.usefixtures("fresh_choice")


def elsewhere() -> mem.MemoryManager:
    """The current manager of a thread that starts with an empty context."""
    seen: list[mem.MemoryManager] = []
    thread = threading.Thread(target=lambda: seen.append(mem.current()))
    thread.start()
    thread.join()
    return seen[0]


def test_caching_is_the_default() -> None:
    assert isinstance(mem.current(), CachingManager)
    assert mem.current() is mem.current() is mem.get("caching")


def test_environment_names_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FL_MEMORY_MANAGER", "system")
    assert isinstance(mem.current(), SystemManager)


def test_unknown_name_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FL_MEMORY_MANAGER", "sytsem")
    with pytest.raises(
        mem.PluginError, match="FL_MEMORY_MANAGER='sytsem'.*caching, exact, planned, system"
    ):
        mem.current()


def test_plain_call_sets_the_process() -> None:
    mem.use("system")
    assert mem.current() is mem.get("system") and elsewhere() is mem.get("system")
    mine = SystemManager()
    mem.use(mine)
    assert mem.current() is mine and elsewhere() is mine


def test_context_manager_sets_this_context_only() -> None:
    mem.use("system")
    mine = SystemManager()
    with mem.use(mine) as manager:
        assert manager is mine and mem.current() is mine
        assert elsewhere() is mem.get("system")
        copied = contextvars.copy_context()
        seen: list[mem.MemoryManager] = []
        thread = threading.Thread(target=lambda: copied.run(lambda: seen.append(mem.current())))
        thread.start()
        thread.join()
        assert seen == [mine], "a worker that runs in a copied context sees the same manager"
        with mem.use("caching"):
            assert mem.current() is mem.get("caching")
        assert mem.current() is mine
    assert mem.current() is mem.get("system")


def test_context_manager_ends_with_an_error() -> None:
    before = mem.current()
    with pytest.raises(KeyError), mem.use("system"):
        raise KeyError
    assert mem.current() is before


def test_entering_later_takes_the_plain_call_back() -> None:
    a, b = SystemManager(), SystemManager()
    mem.use("system")
    use_a, use_b = mem.use(a), mem.use(b)
    with use_a:
        assert mem.current() is a and elsewhere() is b
        with use_b:
            assert mem.current() is b and elsewhere() is mem.get("system")
    assert mem.current() is mem.get("system")


def test_the_same_use_may_be_entered_again() -> None:
    mem.use("caching")
    system = mem.use("system")
    for _ in range(2):
        with system, system:
            assert mem.current() is mem.get("system")
        assert mem.current() is mem.get("caching")


def test_plain_calls_do_not_pile_up() -> None:
    for _ in range(50):
        mem.use(SystemManager())
    gc.collect()
    mem.use("system")
    assert len(selection._choices) <= 2


def test_use_wants_a_manager() -> None:
    with pytest.raises(mem.PluginError, match="no memory manager named 'arnea'"):
        mem.use("arnea")
    with pytest.raises(mem.PluginError, match="give a MemoryManager"):
        mem.use(3)  # type: ignore[arg-type]


def test_named_managers_keep_their_statistics() -> None:
    mem.use("caching")
    block = mem.current().alloc(5000)
    mem.use("system")
    mem.use("caching")
    assert mem.current().stats().live_bytes == 5000
    block.free()
    assert mem.current().stats().frees == 1


def test_available_lists_names() -> None:
    assert {"system", "caching"} <= set(mem.available())


def test_what_is_always_small_is_small_for_every_manager_ever_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selection, "_lowest", sys.maxsize)
    monkeypatch.setattr(selection, "always_small", 0)
    with mem.use(SystemManager(small_bytes=8192)):
        assert selection.always_small == 0, "the process's own manager may ask for less"
    assert mem.current().small_bytes == selection.always_small == 4096
    with mem.use(SystemManager(small_bytes=100)):
        assert selection.always_small == 100
    assert selection.always_small == 100, "a thread may still be in a context that uses it"
