"""Settings in the environment: read, or refused with their name, value and what is meant."""

from __future__ import annotations

import re

import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.cli import main
from fl_jit.extensions import registry as extensions
from fl_jit.kernels import registry


@pytest.mark.parametrize(
    ("name", "value", "expected", "reader"),
    [
        ("FL_JIT_MIN_SIZE", "abc", "a number of elements, 0 or more", JitBackend),
        ("FL_JIT_MIN_SIZE", "-3", "a number of elements, 0 or more", JitBackend),
        ("FL_JIT_COMPILE_AFTER", "abc", "a number, 1 or more", JitBackend),
        ("FL_JIT_COMPILE_AFTER", "0", "a number, 1 or more", JitBackend),
        ("FL_JIT_BACKGROUND", "perhaps", "1 (on) or 0 (off)", JitBackend),
        ("FL_KERNELS_FORCE", "2", "1 (on)", registry.is_for_everything.__wrapped__),
        ("FL_KERNEL_LIBRARIES", "none,generated", "'none' stands alone", registry.requested),
    ],
)
def test_a_value_without_a_meaning_is_refused(monkeypatch, name, value, expected, reader):
    monkeypatch.setenv(name, value)
    with pytest.raises(ft.FlError, match=re.escape(name) + ".*" + re.escape(expected)) as raised:
        reader()
    assert value in str(raised.value)


@pytest.mark.parametrize(
    ("former", "name", "value", "read"),
    [
        ("FL_JIT_SIGHTINGS", "FL_JIT_COMPILE_AFTER", "3", lambda: JitBackend().plans.compile_after),
        ("FL_JIT_SMALLEST", "FL_JIT_MIN_SIZE", "3", lambda: JitBackend().smallest),
        ("FL_PROVIDERS", "FL_KERNEL_LIBRARIES", "generated", lambda: registry.requested()[0]),
        (
            "FL_PROVIDERS_EVERYTHING",
            "FL_KERNELS_FORCE",
            "1",
            lambda: int(registry.is_for_everything.__wrapped__()),
        ),
    ],
)
def test_former_names_work_with_a_warning(monkeypatch, former, name, value, read):
    monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(former, value)
    with pytest.warns(DeprecationWarning, match=f"{former} is deprecated.*set {name}={value}"):
        assert str(read()) == value


def test_extensions_are_off_or_on(monkeypatch):
    from importlib import metadata

    requested = []
    monkeypatch.setattr(metadata, "entry_points", lambda group: requested.append(group) or [])
    for value, groups in (("off", []), ("perhaps", []), ("yes", [extensions.GROUP])):
        monkeypatch.setattr(extensions, "_loaded", False)
        monkeypatch.setenv("FL_JIT_EXTENSIONS", value)
        if value == "perhaps":
            with pytest.raises(ft.ArgumentError, match="FL_JIT_EXTENSIONS='perhaps'"):
                extensions.load()
        else:
            extensions.load()
        assert requested == groups


@pytest.mark.parametrize("count", ["0", "-2"])
def test_tune_refuses_a_number_of_threads_that_makes_no_sense(capsys, count):
    assert main(["tune", "--threads", count]) == 1
    assert "give an integer from 1" in capsys.readouterr().err
