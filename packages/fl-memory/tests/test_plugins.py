"""Plug-ins are found by name, imported when asked for, and break nothing but themselves."""

from __future__ import annotations

import importlib
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fl_memory import ContractError, PluginError, Registry
from fl_memory.contract import Version

Install = Callable[..., None]
GOOD = "class Acme:\n    CONTRACT = (1, 0)\n"


def registry(**options: Any) -> Registry:
    return Registry("fl.test.v1", "test thing", Version(1, 1), host_package="fl-test", **options)


def test_group_carries_the_major() -> None:
    with pytest.raises(ContractError, match=r"\.v2"):
        Registry("fl.test.v1", "test thing", Version(2, 0))


def test_installed_provider_is_imported_on_load_only(install: Install) -> None:
    install("acme", "0.3", {"fl.test.v1": {"acme": "acme_mod:Acme"}}, acme_mod=GOOD)
    things = registry(builtins={"own": "collections:OrderedDict"})
    assert things.names() == ["acme", "own"]
    assert things.origin("acme") == "acme 0.3" and things.origin("own") == ""
    assert "acme_mod" not in sys.modules
    cls = things.load("acme")
    assert cls.__name__ == "Acme" and things.load("acme") is cls
    assert things.problems(load=False) == []


def test_builtin_needs_no_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("entry points were read")

    monkeypatch.setattr("importlib.metadata.entry_points", refuse)
    monkeypatch.setattr("fl_memory.installed.offers", refuse)
    things = registry()
    things.register("own", type("Own", (), {"CONTRACT": (1, 0)}))
    assert things.load("own").__name__ == "Own"


def test_unknown_name_lists_what_there_is(install: Install) -> None:
    install("acme", "0.3", {"fl.test.v1": {"acme": "acme_mod:Acme"}}, acme_mod=GOOD)
    with pytest.raises(PluginError, match="no test thing named 'acne'; there are: acme"):
        registry().load("acne")
    assert issubclass(PluginError, LookupError)


@pytest.mark.parametrize(
    "code, cause",
    [
        ("import no_such_module_anywhere", "ModuleNotFoundError: No module named"),
        ("raise RuntimeError('driver is too old')", "RuntimeError: driver is too old"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("class Other: ...", "AttributeError"),
        ("def (", "SyntaxError"),
    ],
)
def test_broken_provider_shows_its_cause_and_spares_the_others(
    install: Install, code: str, cause: str
) -> None:
    install("broken", "0.1", {"fl.test.v1": {"broken": "broken_mod:Acme"}}, broken_mod=code)
    install("acme", "0.3", {"fl.test.v1": {"acme": "acme_mod:Acme"}}, acme_mod=GOOD)
    things = registry()
    assert things.names() == ["acme", "broken"]
    assert things.load("acme")
    with pytest.raises(PluginError, match="broken 0.1") as caught:
        things.load("broken")
    assert cause in str(caught.value) and caught.value.__cause__ is not None
    (line,) = things.problems()
    assert cause in line


def test_problems_can_try_everything(install: Install) -> None:
    install("broken", "0.1", {"fl.test.v1": {"broken": "broken_mod:Acme"}}, broken_mod="1 / 0")
    things = registry()
    assert things.problems() == []
    (line,) = things.problems(load=True)
    assert "ZeroDivisionError" in line


def test_name_offered_twice(install: Install) -> None:
    install("acme", "0.3", {"fl.test.v1": {"acme": "acme_mod:Acme"}}, acme_mod=GOOD)
    install("acme-too", "1.0", {"fl.test.v1": {"acme": "acme_two:Acme"}}, acme_two=GOOD)
    things = registry()
    assert things.names() == ["acme"]
    with pytest.raises(PluginError) as caught:
        things.load("acme")
    assert "acme 0.3" in str(caught.value) and "acme-too 1.0" in str(caught.value)
    assert len(things.problems()) == 1
    assert things.load("acme_two:Acme").__module__ == "acme_two", "the way out that it names"


def test_builtin_name_cannot_be_taken_over(install: Install) -> None:
    install("bad", "6.6", {"fl.test.v1": {"own": "bad_mod:Acme"}}, bad_mod=GOOD)
    things = registry()
    own = type("Own", (), {"CONTRACT": (1, 0)})
    things.register("own", own)
    assert things.load("own") is own
    (line,) = things.problems()
    assert "bad 6.6" in line and "shadowed" in line


def test_provider_states_its_contract_itself(install: Install) -> None:
    code = "class Base:\n    CONTRACT = (1, 0)\nclass Acme(Base):\n    ...\n"
    install("acme", "0.3", {"fl.test.v1": {"acme": "acme_mod:Acme"}}, acme_mod=code)
    with pytest.raises(ContractError, match="acme 0.3.*inherits"):
        registry().load("acme")


def test_too_new_provider_is_refused_with_both_numbers(install: Install) -> None:
    code = "class Acme:\n    CONTRACT = (1, 2)\n"
    install("acme", "0.3", {"fl.test.v1": {"acme": "acme_mod:Acme"}}, acme_mod=code)
    with pytest.raises(ContractError, match=r"acme 0\.3 .*1\.2.*1\.1.*upgrade fl-test"):
        registry().load("acme")


@pytest.mark.parametrize(
    "group, remedy", [("fl.test.v2", "upgrade fl-test"), ("fl.test.v0", "upgrade acme")]
)
def test_other_major_is_recognised_without_importing(
    install: Install, group: str, remedy: str
) -> None:
    install("acme", "0.3", {group: {"acme": "acme_mod:Acme"}}, acme_mod="raise SystemExit")
    things = registry()
    assert things.names() == []
    with pytest.raises(ContractError, match=remedy):
        things.load("acme")
    assert "acme_mod" not in sys.modules
    (line,) = things.problems()
    assert "acme 0.3" in line and "1.1" in line


def test_announced_minor_is_checked_without_importing(install: Install) -> None:
    install(
        "acme",
        "0.3",
        {"fl.test.v1": {"acme": "acme_mod:Acme"}},
        keywords="tensors,fl.test.v1.7",
        acme_mod="raise SystemExit",
    )
    with pytest.raises(ContractError, match=r"1\.7.*1\.1"):
        registry().load("acme")
    assert "acme_mod" not in sys.modules


def test_announced_minor_must_be_true(install: Install) -> None:
    install(
        "acme",
        "0.3",
        {"fl.test.v1": {"acme": "acme_mod:Acme"}},
        keywords="fl.test.v1.1",
        acme_mod=GOOD,
    )
    with pytest.raises(ContractError, match=r"announces contract 1\.1.*states 1\.0"):
        registry().load("acme")


def test_base_class_and_kind_are_checked() -> None:
    things = registry(base="collections:OrderedDict")
    things.register("plain", type("Plain", (), {"CONTRACT": (1, 0)}))
    things.register("number", "math:pi")
    with pytest.raises(PluginError, match="does not derive from OrderedDict"):
        things.load("plain")
    with pytest.raises(PluginError, match="must be a class"):
        things.load("number")


def test_register_and_unregister() -> None:
    things = registry()
    first, second = (type(n, (), {"CONTRACT": (1, 0)}) for n in ("First", "Second"))
    things.register("x", first)
    with pytest.raises(PluginError, match="replace=True"):
        things.register("x", second)
    assert things.load("x") is first
    things.register("x", second, replace=True)
    assert things.load("x") is second
    things.unregister("x")
    assert "x" not in things.names()
    with pytest.raises(PluginError):
        things.unregister("x")


def test_refresh_sees_new_distributions(install: Install) -> None:
    things = registry()
    assert things.names() == []
    install("acme", "0.3", {"fl.test.v1": {"acme": "acme_mod:Acme"}}, acme_mod=GOOD)
    assert things.names() == []
    things.refresh()
    assert things.names() == ["acme"]


@pytest.mark.defect("item 5")
def test_a_thread_may_load_what_another_one_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    things = registry()
    importing, loading = threading.Event(), threading.Event()
    meeting: Any = types.ModuleType("meeting")
    meeting.things, meeting.importing, meeting.loading = things, importing, loading
    monkeypatch.setitem(sys.modules, "meeting", meeting)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_mod.py").write_text(GOOD)
    (tmp_path / "asking_mod.py").write_text(
        "import meeting\n"
        "meeting.importing.set()\n"
        "meeting.loading.wait(30)\n"
        "meeting.things.load('own_mod:Acme')\n" + GOOD
    )

    def load() -> None:
        importing.wait(30)
        threading.Timer(0.2, loading.set).start()  # when it waits for the module
        things.load("asking_mod:Acme")

    works = [lambda: importlib.import_module("asking_mod"), load]
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    for name in ("asking_mod", "own_mod"):
        del sys.modules[name]
