"""Settings in the environment: read, or refused with their name, value and what is meant."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import fl_tensor as ft
from fl_tensor import cache_files, settings


@pytest.mark.parametrize(
    ("value", "expected", "read"),
    [
        (
            "abc",
            "a number of rows, 2 or more",
            lambda name: settings.number(name, 5, 2, "a number of rows"),
        ),
        ("1", "a number, 2 or more", lambda name: settings.number(name, 5, 2)),
        ("perhaps", "1 (on) or 0 (off)", lambda name: settings.switch(name, True)),
    ],
)
def test_a_value_without_a_meaning_is_refused(monkeypatch, value, expected, read):
    monkeypatch.setenv("FL_SOME_SETTING", value)
    message = f"FL_SOME_SETTING={value!r}: expected {expected}"
    with pytest.raises(ft.ArgumentError, match=re.escape(message)):
        read("FL_SOME_SETTING")


def test_a_wrong_size_of_the_cache_is_refused(monkeypatch):
    monkeypatch.setenv("FL_CACHE_BYTES", "-1")
    with pytest.raises(ft.ArgumentError, match="FL_CACHE_BYTES='-1': expected a number of bytes"):
        cache_files.most_bytes()


@pytest.mark.parametrize("word", ["1", "on", "Yes", "TRUE"])
def test_words_for_on(monkeypatch, word):
    monkeypatch.setenv("FL_SOME_SETTING", word)
    assert settings.switch("FL_SOME_SETTING", False) is True


@pytest.mark.parametrize("word", ["0", "off", "No", "FALSE"])
def test_words_for_off(monkeypatch, word):
    monkeypatch.setenv("FL_SOME_SETTING", word)
    assert settings.switch("FL_SOME_SETTING", True) is False


def test_an_empty_value_counts_as_not_set(monkeypatch):
    monkeypatch.setenv("FL_SOME_SETTING", "")
    assert settings.switch("FL_SOME_SETTING", True) is True
    assert settings.number("FL_SOME_SETTING", 5, 2) == 5
    assert settings.text("FL_SOME_SETTING") == ""


def test_a_former_name_is_read_with_a_warning(monkeypatch):
    monkeypatch.setenv("FL_FORMER_NAME", "7")
    with pytest.warns(DeprecationWarning, match="FL_FORMER_NAME is deprecated.*FL_NAME=7"):
        assert settings.number("FL_NAME", 5, 2, former="FL_FORMER_NAME") == 7
    monkeypatch.setenv("FL_NAME", "3")
    assert settings.number("FL_NAME", 5, 2, former="FL_FORMER_NAME") == 3


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
