"""One number of threads for all pools."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import fl_tensor as ft
from fl_tensor import threads
from fl_tensor.backends.providers import onednn


@pytest.fixture(autouse=True)
def unchanged(monkeypatch):
    """Each test begins without a choice, and leaves the pools of the process as they were."""
    monkeypatch.setattr(threads, "_pools", {})
    monkeypatch.setattr(threads, "_chosen", None)


def process(code, **environment):
    command = [sys.executable, "-c", f"import fl_tensor as ft; {code}"]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "OPENBLAS_"))}
    return subprocess.run(
        command, env={**env, **environment}, capture_output=True, text=True, check=True
    )


def in_a_process(code, **environment):
    return process(code, **environment).stdout.strip()


def test_the_environment_decides_first():
    assert in_a_process("print(ft.get_num_threads())", OMP_NUM_THREADS="3") == "3"
    assert in_a_process("print(ft.get_num_threads())", OMP_NUM_THREADS="5,2") == "5"
    assert int(in_a_process("print(ft.get_num_threads())", OMP_NUM_THREADS="many")) >= 1


WORK = """
import os
before = dict(os.environ)
x = ft.randn((256, 256))
(x @ x).tolist()
assert dict(os.environ) == before
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="libgomp is Linux's")
@pytest.mark.parametrize("provider", ["generated", "onednn"])
def test_threads_wait_awake_for_a_moment_only_unless_the_user_says_otherwise(provider):
    if provider == "generated":
        pytest.importorskip("llvmlite", reason="kernels are compiled with llvmlite")
    elif onednn.load()[0] is None:
        pytest.skip("oneDNN is not installed (fl-tensor[onednn])")

    def spins(**environment):
        asked = {"OMP_DISPLAY_ENV": "verbose", "FL_PROVIDERS": provider, "OMP_NUM_THREADS": "2"}
        shown = process(WORK, **asked, **environment).stderr
        return re.search(r"GOMP_SPINCOUNT = '(\w+)'", shown)[1]

    assert spins() == str(threads.SPINS)
    assert spins(GOMP_SPINCOUNT="77") == "77"
    assert spins(OMP_WAIT_POLICY="passive") == "0"


def test_pools_are_told_of_every_change():
    told = []
    threads.register(threads.Pool("first", told.append, lambda: ""))
    assert told == [], "nobody has chosen a number yet"
    ft.set_num_threads(3)
    assert ft.get_num_threads() == 3 and told == [3]


def test_a_pool_that_comes_later_is_told_when_it_comes():
    told = []
    ft.set_num_threads(2)
    threads.register(threads.Pool("late", told.append, lambda: "2 threads"))
    assert told == [2]
    assert [pool.name for pool in threads.pools()] == ["late"]


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_what_is_no_number_of_threads_is_refused(count):
    with pytest.raises(ft.ArgumentError, match="from 1 to 1024"):
        ft.set_num_threads(count)
