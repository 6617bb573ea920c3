"""Settings in the environment: read, or refused with their name, value and what is meant."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import fl_tensor as ft
from fl_tensor import cache_files, settings
from fl_tensor.backends.jit import JitBackend
from fl_tensor.backends.jit.outside import extensions
from fl_tensor.backends.providers import choose


@pytest.mark.parametrize(
    ("name", "value", "expected", "reader"),
    [
        ("FL_JIT_SMALLEST", "abc", "a number of elements, 0 or more", JitBackend),
        ("FL_JIT_SMALLEST", "-3", "a number of elements, 0 or more", JitBackend),
        ("FL_JIT_SIGHTINGS", "abc", "a number, 1 or more", JitBackend),
        ("FL_JIT_SIGHTINGS", "0", "a number, 1 or more", JitBackend),
        ("FL_JIT_BACKGROUND", "perhaps", "1 (on) or 0 (off)", JitBackend),
        ("FL_CACHE_BYTES", "-1", "a number of bytes, 0 or more", cache_files.most_bytes),
        ("FL_PROVIDERS_EVERYTHING", "2", "1 (on)", choose.is_for_everything.__wrapped__),
        ("FL_PROVIDERS", "none,generated", "'none' stands alone", choose.wanted),
    ],
)
def test_what_says_nothing_is_refused(monkeypatch, name, value, expected, reader):
    monkeypatch.setenv(name, value)
    with pytest.raises(ft.FlError, match=re.escape(name) + ".*" + re.escape(expected)) as raised:
        reader()
    assert value in str(raised.value)


def test_extensions_are_off_or_on(monkeypatch):
    from importlib import metadata

    asked = []
    monkeypatch.setattr(metadata, "entry_points", lambda group: asked.append(group) or [])
    for value, groups in (("off", []), ("perhaps", []), ("yes", [extensions.GROUP])):
        monkeypatch.setattr(extensions, "_loaded", False)
        monkeypatch.setenv("FL_JIT_EXTENSIONS", value)
        if value == "perhaps":
            with pytest.raises(ft.ArgumentError, match="FL_JIT_EXTENSIONS='perhaps'"):
                extensions.load()
        else:
            extensions.load()
        assert asked == groups


@pytest.mark.parametrize("value", ["1", "on", "Yes", "TRUE"])
def test_what_is_on(monkeypatch, value):
    monkeypatch.setenv("FL_TESTS", value)
    assert settings.switch("FL_TESTS", False)


@pytest.mark.parametrize("value", ["0", "off", "No", "false"])
def test_what_is_off(monkeypatch, value):
    monkeypatch.setenv("FL_TESTS", value)
    assert not settings.switch("FL_TESTS", True)


def test_what_is_not_set_or_empty_has_its_default(monkeypatch):
    monkeypatch.delenv("FL_TESTS", raising=False)
    assert settings.number("FL_TESTS", 7, 1) == 7 and settings.switch("FL_TESTS", True)
    monkeypatch.setenv("FL_TESTS", "")
    assert settings.number("FL_TESTS", 7, 1) == 7 and not settings.switch("FL_TESTS", False)


def test_reproducible_from_the_start(monkeypatch):
    program = "from fl_tensor.reproducible import is_reproducible as on; print(on())"
    for value, said in (("no", "False"), ("1", "True"), ("maybe", "FL_REPRODUCIBLE='maybe'")):
        monkeypatch.setenv("FL_REPRODUCIBLE", value)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert said in done.stdout + done.stderr


@pytest.mark.parametrize("count", [0, -1, True, 2.0, 10**6])
def test_numbers_of_threads_that_make_no_sense(count):
    before = ft.get_num_threads()
    with pytest.raises(ft.ArgumentError, match="give an integer from 1 to 1024"):
        ft.set_num_threads(count)
    assert ft.get_num_threads() == before


@pytest.mark.parametrize("count", ["0", "-2"])
def test_tune_refuses_them_as_well(capsys, count):
    from fl_tensor.cli import main

    assert main(["tune", "--threads", count]) == 1
    assert "give an integer from 1" in capsys.readouterr().err
