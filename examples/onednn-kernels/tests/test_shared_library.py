"""Which library is taken, and what is said of those that are not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fl_jit.kernels import KernelLibraryError
from onednn_kernels import shared_library as libraries


@pytest.fixture
def nowhere(monkeypatch):
    """Nothing is found anywhere."""
    monkeypatch.setattr(libraries, "_of_distribution", lambda: [])
    monkeypatch.delenv("FL_ONEDNN_LIB", raising=False)
    monkeypatch.setattr(libraries, "NAME", "libno_such_library.so.3")


def test_a_path_in_the_environment_goes_first_and_alone(monkeypatch):
    monkeypatch.setenv("FL_ONEDNN_LIB", "/somewhere/libdnnl.so")
    assert list(libraries.candidates()) == [("/somewhere/libdnnl.so", "FL_ONEDNN_LIB")]


class Installed:
    """What the metadata of a distribution say about its files."""

    def __init__(self, folder, *names):
        self.files = [self.File(folder / name) for name in names]

    class File:
        def __init__(self, path):
            self.path, self.name = path, path.name

        def locate(self):
            return self.path


def test_then_the_distribution_then_the_system(monkeypatch, tmp_path):
    monkeypatch.delenv("FL_ONEDNN_LIB", raising=False)
    installed = Installed(tmp_path, "libdnnl.so.3", "libdnnl.so", "LICENSE")
    monkeypatch.setattr(libraries, "distribution", lambda name: installed)
    assert list(libraries.candidates()) == [("libdnnl.so.3", "system")], "the file is gone"
    (tmp_path / "libdnnl.so.3").write_text("")
    own = str(tmp_path / "libdnnl.so.3")
    assert list(libraries.candidates()) == [(own, "onednn-cpu-gomp"), ("libdnnl.so.3", "system")]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="libraries of Linux")
def test_without_a_usable_library_the_error_says_what_to_install(nowhere):
    with pytest.raises(
        KernelLibraryError, match="libno_such_library.so.3 cannot be loaded"
    ) as told:
        libraries.load()
    assert "Install onednn-cpu-gomp" in str(told.value) and "FL_ONEDNN_LIB" in str(told.value)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="libraries of Linux")
@pytest.mark.parametrize(
    "path,reason", [("/no/such/lib.so", "cannot be loaded"), ("libc.so.6", "is no oneDNN")]
)
def test_a_requested_path_must_be_usable(monkeypatch, path, reason):
    monkeypatch.setenv("FL_ONEDNN_LIB", path)
    with pytest.raises(KernelLibraryError, match=rf"FL_ONEDNN_LIB={path}.*{reason}.*unset it"):
        libraries.load()


def test_a_build_on_sycl_is_refused_and_others_have_to_be_requested(shared_library, monkeypatch):
    def runtime_of(name):
        monkeypatch.setattr(libraries, "_RUNTIMES", {2: name})
        return libraries._try(shared_library.path, is_requested=False), libraries._try(
            shared_library.path, is_requested=True
        )

    assert all("on SYCL" in str(found) for found in runtime_of("SYCL"))
    found, requested = runtime_of("TBB")
    assert "on TBB, expected one on OpenMP" in str(found)
    assert isinstance(requested, libraries.Library) and requested.runtime == "TBB"


def test_the_library_says_what_it_is(shared_library):
    assert shared_library.version.startswith("3.") and shared_library.runtime == "OpenMP"


def test_jit_computes_with_it_where_it_is_named(shared_library):
    code = (
        "import fl_tensor as ft; from fl_jit.kernels import Matmul, active_library, row_major\n"
        "x = ft.ones((200, 300)); print(float((x @ x.T).sum()), active_library().report())\n"
    )
    env = {**os.environ, "FL_KERNEL_LIBRARIES": "onednn,generated", "FL_TENSOR_BACKEND": "jit"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("12000000.0") and shared_library.path in done.stdout


def test_a_library_that_cannot_be_used_is_an_error_of_jit():
    code = "import fl_tensor as ft; x = ft.ones((300, 300)); (x @ x).numpy()"
    env = {**os.environ, "FL_KERNEL_LIBRARIES": "onednn", "FL_TENSOR_BACKEND": "jit"}
    env["FL_ONEDNN_LIB"] = "/no/such/libdnnl.so"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode
    for word in ("onednn-kernels", "FL_ONEDNN_LIB=/no/such/libdnnl.so", "FL_KERNEL_LIBRARIES"):
        assert word in done.stderr
