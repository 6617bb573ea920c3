"""Which library is taken, and what is said of those that are not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fl_jit.kernels import KernelLibraryError, registry
from fl_jit.kernels.onednn import shared_library as libraries


@pytest.fixture
def nowhere(monkeypatch):
    """Nothing is found anywhere."""
    monkeypatch.delenv("FL_ONEDNN_LIB", raising=False)
    monkeypatch.setattr(libraries, "NAME", "libno_such_library.so.3")


@pytest.fixture
def fresh():
    """The process's choice, made anew in the test and after it."""
    registry.found.cache_clear()
    registry.active_library.cache_clear()
    yield
    registry.found.cache_clear()
    registry.active_library.cache_clear()


def test_a_path_in_the_environment_goes_first_and_alone(monkeypatch):
    monkeypatch.setenv("FL_ONEDNN_LIB", "/somewhere/libdnnl.so")
    assert list(libraries.candidates()) == [("/somewhere/libdnnl.so", "FL_ONEDNN_LIB")]


def test_then_the_environment_then_the_system(monkeypatch, tmp_path):
    monkeypatch.delenv("FL_ONEDNN_LIB", raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(libraries.site, "ENABLE_USER_SITE", False)
    assert list(libraries.candidates()) == [("libdnnl.so.3", "system")]
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libdnnl.so.3").write_text("")
    assert [origin for _, origin in libraries.candidates()] == ["environment", "system"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="libraries of Linux")
def test_what_is_none_is_passed_over_with_a_reason(nowhere):
    found, passed = libraries.load()
    assert found is None
    assert "cannot be loaded" in passed[-1] and "libno_such_library" in passed[-1]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="libraries of Linux")
@pytest.mark.parametrize(
    "path,reason", [("/no/such/lib.so", "cannot be loaded"), ("libc.so.6", "is no oneDNN")]
)
def test_a_path_that_was_asked_for_must_do(monkeypatch, path, reason):
    monkeypatch.setenv("FL_ONEDNN_LIB", path)
    with pytest.raises(KernelLibraryError, match=rf"FL_ONEDNN_LIB={path}.*{reason}.*unset it"):
        libraries.load()


def test_a_build_on_sycl_is_refused_and_others_want_to_be_asked_for(library, monkeypatch):
    def runtime_of(name):
        monkeypatch.setattr(libraries, "_RUNTIMES", {2: name})
        return libraries._try(library.path, asked=False), libraries._try(library.path, asked=True)

    assert all("on SYCL" in str(found) for found in runtime_of("SYCL"))
    found, asked = runtime_of("TBB")
    assert "on TBB, expected one on OpenMP" in str(found)
    assert isinstance(asked, libraries.Library) and asked.runtime == "TBB"


def test_the_library_says_what_it_is(library):
    assert library.version.startswith("3.") and library.runtime == "OpenMP"


def test_where_there_is_none_one_is_told_how_to_get_it(nowhere, fresh, monkeypatch):
    monkeypatch.setenv("FL_KERNEL_LIBRARIES", "onednn")
    monkeypatch.setattr(libraries, "candidates", lambda: iter([(libraries.NAME, "system")]))
    assert registry.active_library() is None
    assert "pip install './backends/fl-jit[onednn]'" in registry.found()[1][-1]


def test_a_process_without_it_works(tmp_path):
    code = (
        "import fl_tensor as ft; from fl_jit.kernels import registry\n"
        "x = ft.ones((200, 300)); print(float((x @ x.T).sum()), registry.active_library())"
    )
    env = {**os.environ, "FL_KERNEL_LIBRARIES": "none"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["12000000.0", "None"]
